package client

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"machined/api/machinepb"
)

// Services tells of the node's services, in the order of their start.
func (c *Client) Services(ctx context.Context) ([]*machinepb.ServiceInfo, error) {
	var resp *machinepb.ServiceListResponse
	err := c.call(ctx, "list the services of", func(ctx context.Context) (err error) {
		resp, err = c.service.ServiceList(ctx, &machinepb.Empty{})
		return err
	})
	return resp.GetServices(), err
}

// StartService returns when the service runs, and is healthy if it is probed.
// wait bounds it.
func (c *Client) StartService(ctx context.Context, id string, wait time.Duration) (*machinepb.ServiceInfo, error) {
	return c.control(ctx, "start service "+clean(id)+" of", id, wait, c.service.ServiceStart)
}

// StopService returns when the service has ended.
func (c *Client) StopService(ctx context.Context, id string, wait time.Duration) (*machinepb.ServiceInfo, error) {
	return c.control(ctx, "stop service "+clean(id)+" of", id, wait, c.service.ServiceStop)
}

// RestartService returns when the service has ended and runs again.
func (c *Client) RestartService(ctx context.Context, id string, wait time.Duration) (*machinepb.ServiceInfo, error) {
	return c.control(ctx, "restart service "+clean(id)+" of", id, wait, c.service.ServiceRestart)
}

type controlCall func(context.Context, *machinepb.ServiceRequest, ...grpc.CallOption) (*machinepb.ServiceInfo, error)

func (c *Client) control(ctx context.Context, op, id string, wait time.Duration, call controlCall) (*machinepb.ServiceInfo, error) {
	var info *machinepb.ServiceInfo
	err := c.callWithin(ctx, op, wait, func(ctx context.Context) (err error) {
		info, err = call(ctx, &machinepb.ServiceRequest{Id: id})
		return err
	})
	return info, refineService(err)
}

// answer returns the error of a call, and what the node itself has answered; nil
// for an error that is none of it.
func answer(err error) (*Error, *status.Status) {
	// The status itself: status.Convert puts the words of what wraps it before its
	// own, as explain's time-outs are wrapped.
	var e *Error
	var node interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &e) || !errors.As(e.Err, &node) {
		return nil, nil
	}
	return e, node.GRPCStatus()
}

// refineService takes the node's own words for what it says of a service.
func refineService(err error) error {
	e, st := answer(err)
	if e == nil {
		return err
	}
	switch said := clean(st.Message()); {
	case st.Code() == codes.NotFound:
		e.Cause, e.Message = ErrUnknownService, said
	case st.Code() == codes.Aborted:
		e.Cause, e.Message = ErrService, said
	case st.Code() == codes.DeadlineExceeded && strings.HasPrefix(said, "service "):
		e.Cause, e.Message = ErrTimeout, said
	}
	return err
}

// ResetRuntime has the node's container runtime begin anew, without what it had.
func (c *Client) ResetRuntime(ctx context.Context) error {
	return c.call(ctx, "reset the container runtime of", func(ctx context.Context) error {
		_, err := c.service.ResetRuntime(ctx, &machinepb.Empty{})
		return err
	})
}

// Logs calls record with the last lines that a service has written, all that are
// kept for a tail of 0 and none for a negative one, and with follow each that it
// writes from then on, until ctx or record ends it. lost is told how many lines
// were overwritten before they could be sent.
func (c *Client) Logs(ctx context.Context, service string, follow bool, tail int32, record func(*machinepb.LogRecord) error, lost func(uint64) error) error {
	ctx, begun, explain, end := c.stream(ctx, "read the log of "+clean(service)+" of")
	defer end()
	stream, err := c.service.Logs(ctx, &machinepb.LogsRequest{Service: service, Follow: follow, TailLines: tail})
	if err != nil {
		return refineService(explain(err))
	}
	if _, err := stream.Header(); err != nil {
		return refineService(explain(err))
	}
	begun()
	for {
		resp, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return refineService(explain(err))
		}
		if n := resp.GetLost(); n > 0 {
			if err := lost(n); err != nil {
				return err
			}
		}
		for _, r := range resp.GetRecords() {
			if err := record(r); err != nil {
				return err
			}
		}
	}
}
