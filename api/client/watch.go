package client

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"machined/api/machinepb"
)

const (
	// The pause before a watch that broke is made again, doubled each time.
	rewatchMin = 500 * time.Millisecond
	rewatchMax = 10 * time.Second
)

// Watch calls event with the resources of a kind and then with each change,
// until ctx or event ends it. A connection that breaks is made again, and the
// watch goes on where it was, or with all resources anew if the node started in
// between; retry is told of it. The first connection is not retried: its error
// tells what to mend.
func (c *Client) Watch(ctx context.Context, kind, namespace string, event func(*machinepb.WatchEvent) error, retry func(error, time.Duration)) error {
	req := &machinepb.WatchRequest{Type: kind, Namespace: namespace}
	pause, began := rewatchMin, false
	for {
		err := c.watchOnce(ctx, req, func(e *machinepb.WatchEvent) error {
			began, pause = true, rewatchMin
			req.Epoch, req.After = resume(e)
			return event(e)
		})
		var stopped *stoppedError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &stopped):
			return stopped.err
		case !began || !transient(err):
			return refineList(err, kind, namespace)
		}
		retry(err, pause)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, rewatchMax)
	}
}

// resume returns where a watch goes on that breaks after an event. Within a list
// of all resources that is its start: what is left of it would never come.
func resume(e *machinepb.WatchEvent) (epoch string, after uint64) {
	switch e.GetOp() {
	case machinepb.WatchEvent_CURRENT, machinepb.WatchEvent_LOST:
		return "", 0
	}
	return e.GetEpoch(), e.GetSequence()
}

// transient reports whether a watch that ended with err may come about again:
// all but what is wrong with the request or a certificate.
func transient(err error) bool {
	if status.Code(err) == codes.Unauthenticated {
		return false
	}
	for _, cause := range []error{
		ErrUnknownKind, ErrNamespace, ErrPermission, ErrUnimplemented, ErrForeignNode, ErrNodeName, ErrClientCertTime, ErrCanceled,
	} {
		if errors.Is(err, cause) {
			return false
		}
	}
	return true
}

// stoppedError is what the caller of Watch ended it with.
type stoppedError struct{ err error }

func (e *stoppedError) Error() string { return e.err.Error() }

// watchOnce runs one stream. Until its first event it is bound by the time
// limit of a call.
func (c *Client) watchOnce(ctx context.Context, req *machinepb.WatchRequest, event func(*machinepb.WatchEvent) error) error {
	ctx, begun, explain, end := c.stream(ctx, "watch "+clean(req.GetType())+" of")
	defer end()
	stream, err := c.service.Watch(ctx, req)
	if err != nil {
		return explain(err)
	}
	for {
		e, err := stream.Recv()
		if err != nil {
			if status.Code(err) == codes.OK {
				err = status.Error(codes.Unavailable, "the node ended the watch")
			}
			return explain(err)
		}
		begun()
		if err := event(e); err != nil {
			return &stoppedError{err}
		}
	}
}
