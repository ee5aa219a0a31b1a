package linux

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"machined/hal"
)

const (
	// criSoon bounds calls that a runtime answers from memory, criCall those
	// that start and stop things on a slow card, and criPull the way of an image
	// over a slow line.
	criSoon = 15 * time.Second
	criCall = 3 * time.Minute
	criPull = time.Hour
	// criIdle without a call ends the search for the runtime.
	criIdle = 3 * time.Second
	// criRetry is the pause before the runtime's events are asked for again.
	criRetry = 2 * time.Second
	// criMessage bounds an answer in bytes; a list of a board's containers has
	// some kilobytes.
	criMessage = 4 << 20
)

// CRI is the real hal.CRI: gRPC over a unix socket.
type CRI struct {
	// Namespace is that of the pods that are this driver's own. It is set before
	// the first call, if at all.
	Namespace string
	// MemoryMax is the limit in bytes of containers that have none of their own,
	// 0 for none. It is set before the first call.
	MemoryMax uint64

	conn    *grpc.ClientConn
	runtime v1.RuntimeServiceClient
	images  v1.ImageServiceClient
	load    func(path string) error
	changes atomic.Uint64
	version atomic.Pointer[v1.VersionResponse] // nil while it is not known
	// awake has a place that is taken when the runtime has answered.
	awake chan struct{}

	// mu guards what is kept of things that do not change any more.
	mu    sync.Mutex
	exits map[string]*v1.ContainerStatus // of containers that have exited
	addrs map[string]string              // of ready sandboxes

	hierarchy, cgroup string // where cgroups are mounted, and that of the pods
}

// NewCRI returns a driver for the runtime that listens on socket, there or not
// yet. Pods get their cgroups below cgroup, a path in the hierarchy that is mounted
// at the directory of that name; limits that the kernel does not know there are left
// out. load imports a file of images.
func NewCRI(socket, hierarchy, cgroup string, load func(path string) error) (*CRI, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.5, MaxDelay: time.Second}, MinConnectTimeout: criSoon,
		}),
		// gRPC dials a socket that is not there again and again, for as long as it
		// takes somebody to be interested. Events are, while the runtime is there.
		grpc.WithIdleTimeout(criIdle),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(criMessage)),
		// The windows that go with a board: there is one client, and no network.
		grpc.WithReadBufferSize(4096), grpc.WithWriteBufferSize(4096), grpc.WithDisableServiceConfig())
	if err != nil {
		return nil, fmt.Errorf("connect to the container runtime at %s: %w", socket, err)
	}
	return &CRI{
		Namespace: "machined",
		conn:      conn, runtime: v1.NewRuntimeServiceClient(conn), images: v1.NewImageServiceClient(conn), load: load, hierarchy: hierarchy, cgroup: cgroup,
		awake: make(chan struct{}, 1),
		exits: map[string]*v1.ContainerStatus{}, addrs: map[string]string{},
	}, nil
}

// Close ends the connection.
func (c *CRI) Close() error { return c.conn.Close() }

// Watch counts the runtime's events and calls moved after each. While the runtime
// is not there, it waits for Status to have found it: a socket that is tried again
// and again wakes a node that has nothing to do. It returns when ctx ends.
func (c *CRI) Watch(ctx context.Context, moved func()) error {
	for ctx.Err() == nil {
		heard := false
		stream, err := c.runtime.GetContainerEvents(ctx, &v1.GetEventsRequest{})
		for err == nil {
			if _, err = stream.Recv(); err == nil {
				heard = true
				c.changes.Add(1)
				moved()
			}
		}
		if heard {
			// Something may have been missed.
			c.changes.Add(1)
			moved()
		}
		wait := c.awake
		if status.Code(err) != codes.Unavailable {
			wait = nil
		}
		select {
		case <-ctx.Done():
		case <-wait:
		case <-retry(wait == nil):
		}
	}
	return ctx.Err()
}

// retry is a pause for what failed otherwise than by not being there; nil, which
// is for ever, for what has not.
func retry(soon bool) <-chan time.Time {
	if !soon {
		return nil
	}
	return time.After(criRetry)
}

// Changes implements hal.CRI.
func (c *CRI) Changes() uint64 { return c.changes.Load() }

func within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// criError says what was tried, in the runtime's words.
func criError(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	what := fmt.Sprintf(format, args...)
	s := status.Convert(err)
	switch s.Code() {
	case codes.NotFound:
		return fmt.Errorf("%s: %w", what, hal.ErrNotFound)
	case codes.DeadlineExceeded:
		return fmt.Errorf("%s: the container runtime does not answer", what)
	case codes.Unavailable:
		return fmt.Errorf("%s: the container runtime is not there", what)
	}
	return fmt.Errorf("%s: %s", what, s.Message())
}

// missing reports whether a call failed for want of what it was to remove.
func missing(err error) bool { return status.Code(err) == codes.NotFound }

// Status implements hal.CRI.
func (c *CRI) Status() (hal.RuntimeState, error) {
	ctx, cancel := within(criSoon)
	defer cancel()
	version := c.version.Load()
	if version == nil {
		// Once for each process: a node at rest asks for the status alone.
		v, err := c.runtime.Version(ctx, &v1.VersionRequest{})
		if err != nil {
			return hal.RuntimeState{}, criError(err, "ask for the version")
		}
		version = v
	}
	answer, err := c.runtime.Status(ctx, &v1.StatusRequest{})
	if err != nil {
		c.version.Store(nil)
		return hal.RuntimeState{}, criError(err, "ask for the status")
	}
	c.version.Store(version)
	state := hal.RuntimeState{Name: version.RuntimeName, Version: version.RuntimeVersion}
	var why []string
	for _, condition := range answer.GetStatus().GetConditions() {
		switch condition.Type {
		case v1.RuntimeReady:
			state.Ready = condition.Status
		case v1.NetworkReady:
			state.NetworkReady = condition.Status
		}
		if !condition.Status && condition.Message != "" {
			why = append(why, condition.Message)
		}
	}
	state.Message = strings.Join(why, "; ")
	select {
	case c.awake <- struct{}{}:
	default:
	}
	return state, nil
}

// Usage implements hal.CRI.
func (c *CRI) Usage() (size, free uint64, err error) {
	ctx, cancel := within(criSoon)
	defer cancel()
	info, err := c.images.ImageFsInfo(ctx, &v1.ImageFsInfoRequest{})
	if err != nil {
		return 0, 0, criError(err, "ask where images are")
	}
	all := info.GetImageFilesystems()
	if len(all) == 0 {
		return 0, 0, errors.New("ask where images are: the runtime does not say")
	}
	at := all[0].GetFsId().GetMountpoint()
	var fs unix.Statfs_t
	if err := unix.Statfs(at, &fs); err != nil {
		return 0, 0, fmt.Errorf("ask how full %s is: %w", at, err)
	}
	unit := uint64(fs.Bsize)
	return fs.Blocks * unit, fs.Bavail * unit, nil
}

var _ hal.CRI = (*CRI)(nil)
