package api

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"machined/api/machinepb"
)

// Services is what the API asks of a node about its services.
type Services interface {
	// Services tells of the services, in the order of their start.
	Services() []*machinepb.ServiceInfo
	// Control has a service started, stopped or restarted, and waits until it
	// is. ErrUnknownService, ErrBusy when the node goes down, or the context's
	// error; the state at that time comes with it.
	Control(ctx context.Context, id string, action Action) (*machinepb.ServiceInfo, error)
	// Logs returns the log of a service. ErrUnknownService.
	Logs(service string) (Log, error)
	// ResetRuntime has the container runtime begin anew. ErrNoRuntime.
	ResetRuntime(by string) error
}

// Action is what is done to a service.
type Action uint8

const (
	Start Action = iota
	Stop
	Restart
)

var (
	// ErrUnknownService says that the node has no such service.
	ErrUnknownService = errors.New("the node has no such service")
	// ErrNoRuntime says that the node runs no container runtime.
	ErrNoRuntime = errors.New("the node runs no container runtime")
)

// LogEntry is a line of a log.
type LogEntry struct {
	UnixNanos int64
	Stderr    bool
	Text      []byte // valid until the next Read
}

// Log is what a service has written. Positions count its lines from the first,
// kept or not.
type Log interface {
	// Tail returns the position of the last n lines; a negative n is all.
	Tail(n int) uint64
	// Read appends lines from a position on, some kilobytes at most, and returns
	// the position after them and how many were not kept before the first.
	Read(from uint64, out []LogEntry) (entries []LogEntry, next, lost uint64)
	// Moved returns a channel that is closed at the next line.
	Moved() <-chan struct{}
}

func (s *service) ServiceList(context.Context, *machinepb.Empty) (*machinepb.ServiceListResponse, error) {
	return &machinepb.ServiceListResponse{Services: s.node.Services()}, nil
}

func (s *service) ServiceStart(ctx context.Context, req *machinepb.ServiceRequest) (*machinepb.ServiceInfo, error) {
	return s.control(ctx, req.GetId(), Start)
}

func (s *service) ServiceStop(ctx context.Context, req *machinepb.ServiceRequest) (*machinepb.ServiceInfo, error) {
	return s.control(ctx, req.GetId(), Stop)
}

func (s *service) ServiceRestart(ctx context.Context, req *machinepb.ServiceRequest) (*machinepb.ServiceInfo, error) {
	return s.control(ctx, req.GetId(), Restart)
}

const (
	// controlTime bounds the wait for a service where the client does not.
	controlTime = 2 * time.Minute
	// answerTime is what is left of a client's time, at most, for the answer to
	// reach it: one that comes after the deadline, with what the service is doing,
	// nobody reads.
	answerTime = time.Second
)

// patience returns how long a call may wait for a service.
func patience(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return controlTime
	}
	left := time.Until(deadline)
	return min(controlTime, left-min(left/10, answerTime))
}

func (s *service) control(ctx context.Context, id string, action Action) (*machinepb.ServiceInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, patience(ctx))
	defer cancel()
	info, err := s.node.Control(ctx, id, action)
	switch {
	case err == nil:
		return info, nil
	case errors.Is(err, ErrUnknownService):
		return nil, status.Errorf(codes.NotFound, "%v %.64q; known are %s", err, id, serviceNames(s.node.Services()))
	case errors.Is(err, ErrBusy):
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	case ctx.Err() != nil && info != nil:
		return nil, status.Errorf(codes.DeadlineExceeded, "service %s is still %s: %s", id, info.GetState(), info.GetMessage())
	}
	return nil, status.Errorf(codes.Aborted, "service %s: %v", id, err)
}

func serviceNames(all []*machinepb.ServiceInfo) string {
	var names []string
	for _, s := range all {
		names = append(names, s.GetId())
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func (s *service) ResetRuntime(ctx context.Context, _ *machinepb.Empty) (*machinepb.Empty, error) {
	return do(ctx, s.node.ResetRuntime)
}

// Logs costs a client's share of memory, however much a service writes: what
// the client is too slow for is counted as lost.
func (s *service) Logs(req *machinepb.LogsRequest, stream machinepb.MachineService_LogsServer) error {
	log, err := s.node.Logs(req.GetService())
	if err != nil {
		return status.Errorf(codes.NotFound, "%v %.64q; `ServiceList` names the services", err, req.GetService())
	}
	cert, name, err := caller(stream.Context())
	if err != nil {
		return err
	}
	if s.logs.Add(1) > maxLogs {
		s.logs.Add(-1)
		return status.Errorf(codes.ResourceExhausted, "%d logs are being read, which are as many as the node serves; end one", maxLogs)
	}
	defer s.logs.Add(-1)
	// At once, so that the client knows that the log is there.
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	r := logReader{log: log, stream: stream, end: log.Tail(0)}
	switch n := req.GetTailLines(); {
	case n < 0:
		r.at = r.end
	case n == 0:
		r.at = log.Tail(-1)
	default:
		r.at = log.Tail(int(n))
	}
	for {
		moved := log.Moved() // before the read: what comes after it is not missed
		if err := inForce(cert, name, s.now()); err != nil {
			return err
		}
		more, err := r.send()
		switch {
		case err != nil:
			return err
		case !req.GetFollow() && (!more || r.at >= r.end):
			return nil
		case more:
			continue
		}
		select {
		case <-moved:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-s.stopping:
			return status.Error(codes.Unavailable, "the node ends this call; make it again")
		case <-time.After(time.Hour): // looks at the certificate
		}
		// What is written within a moment goes in one message.
		time.Sleep(logPause)
	}
}

// logPause gathers lines, so that a service that writes without pause costs
// some messages a second and not one for each line.
const logPause = 50 * time.Millisecond

type logReader struct {
	log     Log
	stream  machinepb.MachineService_LogsServer
	at      uint64
	end     uint64 // of the log when it was asked for
	entries []LogEntry
}

// send sends the next lines, and reports whether there were any.
func (r *logReader) send() (more bool, err error) {
	var lost uint64
	r.entries, r.at, lost = r.log.Read(r.at, r.entries[:0])
	if len(r.entries) == 0 && lost == 0 {
		return false, nil
	}
	resp := &machinepb.LogsResponse{Lost: lost}
	for _, e := range r.entries {
		name := "stdout"
		if e.Stderr {
			name = "stderr"
		}
		resp.Records = append(resp.Records, &machinepb.LogRecord{TimeUnixNanos: e.UnixNanos, Stream: name, Text: e.Text})
	}
	return true, r.stream.Send(resp)
}
