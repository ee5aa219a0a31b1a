// Package api serves the management API of a node over mutual TLS.
package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"machined/api/machinepb"
	"machined/api/pki"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// Port is the TCP port of the API.
const Port = 50000

// Node is what the API asks of the node. Its methods return at once, but for those
// that take a context.
type Node interface {
	Version() Version
	// Watch is that of reconcile.Store.
	Watch(kind resource.Kind, from uint64, out []reconcile.Change) ([]reconcile.Change, uint64)
	// Epoch names the life of the store that Watch numbers changes in.
	Epoch() string
	// Moved returns a channel that is closed at the next change of any kind.
	Moved() <-chan struct{}
	// Reboot and Shutdown ask for an orderly end; by says who asked. They fail
	// with ErrBusy when another such sequence runs.
	Reboot(by string) error
	Shutdown(by string) error
	// Used is told the client certificate of each call that is allowed.
	Used(fingerprint string)
	Services
	Upgrades
}

// ErrBusy says that a sequence of equal or higher priority runs.
var ErrBusy = errors.New("another sequence is running")

// Version says what runs; see VersionResponse in machine.proto.
type Version struct {
	Version, ImageID, Board, Slot, BootID, Kernel string
}

// Limits of one server, so that clients cost a constant amount of memory.
const (
	maxConnections = 64
	maxStreams     = 16 // per connection
	maxWatches     = 64
	maxLogs        = 32
	maxMessage     = 1 << 20
	window         = 128 << 10 // of what a client has sent and nobody has taken, bytes
	handshakeTime  = 10 * time.Second
	idleTime       = 5 * time.Minute
)

// Server is the gRPC server of a node.
type Server struct {
	grpc     *grpc.Server
	health   *health.Server
	stopping context.CancelFunc // ends the watches

	mu        sync.Mutex
	listeners []*limited
}

// NewServer returns a server that is not listening yet. warn is told what went
// wrong inside a call, for the node's log.
func NewServer(node Node, config *tls.Config, warn func(string)) *Server {
	guard := &guard{node: node, warn: warn, now: config.Time}
	if guard.now == nil {
		guard.now = time.Now
	}
	s := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(config)),
		grpc.UnaryInterceptor(guard.unary),
		grpc.StreamInterceptor(guard.stream),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.ConnectionTimeout(handshakeTime),
		grpc.ReadBufferSize(4<<10),
		grpc.WriteBufferSize(4<<10),
		// Without sizes of its own, the window of a stream grows with what the link
		// carries, up to 16 MiB: a bundle that comes faster than a card can write.
		grpc.InitialWindowSize(window),
		grpc.InitialConnWindowSize(window),
		// A client that vanished with its laptop is let go after a minute, and one
		// that asks for nothing after a while: connections that a program forgets to
		// close would be all that there are. A watch is asking.
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTime, Time: 45 * time.Second, Timeout: 15 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)
	serving, stopping := context.WithCancel(context.Background())
	machinepb.RegisterMachineServiceServer(s, &service{node: node, now: guard.now, stopping: serving.Done()})
	h := health.NewServer()
	h.SetServingStatus(machinepb.MachineService_ServiceDesc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(s, h)
	reflection.Register(s)
	return &Server{grpc: s, health: h, stopping: stopping}
}

// Serve answers on l until Stop. It closes l.
func (s *Server) Serve(l net.Listener) error {
	few := limitListener(l, maxConnections)
	s.mu.Lock()
	s.listeners = append(s.listeners, few)
	s.mu.Unlock()
	if err := s.grpc.Serve(few); err != nil {
		return fmt.Errorf("serve the API on %s: %w", l.Addr(), err)
	}
	return nil
}

// acceptPause lets gRPC look at the connections that it has just accepted.
const acceptPause = 50 * time.Millisecond

// Stop lets calls under way finish for at most grace, then cuts them. Clients
// that connect meanwhile wait in the socket's backlog while anybody holds it
// open.
func (s *Server) Stop(grace time.Duration) {
	s.health.Shutdown()
	s.stopping()
	s.mu.Lock()
	for _, l := range s.listeners {
		l.pause()
	}
	s.mu.Unlock()
	time.Sleep(acceptPause)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
	case <-time.After(grace):
		// gRPC waits for handshakes to end, also in its hard Stop, and a client
		// that says nothing drags one out for handshakeTime.
		s.mu.Lock()
		for _, l := range s.listeners {
			l.cut()
		}
		s.mu.Unlock()
		s.grpc.Stop()
	}
}

// guard checks the caller's role before a method runs, and keeps a panic
// inside of one from ending the program.
type guard struct {
	node Node
	warn func(string)
	now  func() time.Time
}

func (g *guard) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer g.recover(info.FullMethod, &err)
	if err := g.check(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (g *guard) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer g.recover(info.FullMethod, &err)
	if err := g.check(ss.Context(), info.FullMethod); err != nil {
		return err
	}
	return next(srv, ss)
}

func (g *guard) recover(method string, err *error) {
	if r := recover(); r != nil {
		g.warn(fmt.Sprintf("%s panicked: %v\n%s", method, r, debug.Stack()))
		*err = status.Errorf(codes.Internal, "%s failed inside the node; its console has the details", method)
	}
}

func (g *guard) check(ctx context.Context, method string) error {
	cert, name, err := caller(ctx)
	if err != nil {
		return err
	}
	if err := inForce(cert, name, g.now()); err != nil {
		return err
	}
	roles, least := pki.Roles(cert), methodRole(method)
	if !roles.Allows(least) {
		return status.Errorf(codes.PermissionDenied, "%s may not call %s: it needs the role %s and the certificate carries %s", name, method, least, roles)
	}
	g.node.Used(pki.Fingerprint(cert))
	return nil
}
