package client

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"machined/api"
	"machined/api/machinepb"
	"machined/api/pki"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// TestWatchReconnects stops the node under a watch and starts it on the same
// port, once with the same store and once with another, as after a restart.
func TestWatchReconnects(t *testing.T) {
	l := newLab(t)
	put := func(name string) {
		by, err := l.node.Store.Register("writer of "+name, reconcile.Output{Kind: resource.LinkStatusKind, Shared: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.node.Store.Links.Put(by, resource.LinkStatus{Name: name}); err != nil {
			t.Fatal(err)
		}
		l.node.Kick()
	}
	l.node.Store = reconcile.NewStore(new(sync.Mutex))
	put("eth0")
	listen := func(address string) (net.Listener, *api.Server) {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		s := api.NewServer(l.node, pki.NodeTLS(l.pki, at(0)), func(text string) { t.Log(text) })
		go func() { _ = s.Serve(listener) }()
		return listener, s
	}
	listener, server := listen("127.0.0.1:0")
	address := listener.Addr().String()
	c := dial(t, address, l.bundle(t, pki.RoleReader), Options{})
	events := make(chan string, 100)
	retries := make(chan error, 100)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- c.Watch(ctx, "LinkStatus", "", func(e *machinepb.WatchEvent) error {
			events <- strings.ToLower(e.GetOp().String()) + " " + e.GetEntry().GetId()
			if e.GetEntry().GetId() == "stop" {
				return errors.New("enough")
			}
			return nil
		}, func(err error, _ time.Duration) { retries <- err })
	}()
	expect := func(want ...string) {
		t.Helper()
		for _, w := range want {
			select {
			case got := <-events:
				if got != w {
					t.Fatalf("the next event is %q; want %q", got, w)
				}
			case err := <-done:
				t.Fatalf("the watch ended with %v before %q", err, w)
			}
		}
	}
	expect("current eth0", "synced ")
	server.Stop(time.Second)
	put("eth1") // while nobody watches
	_, server = listen(address)
	expect("created eth1")
	server.Stop(time.Second)
	l.node.Store, l.node.Info.BootID = reconcile.NewStore(new(sync.Mutex)), "another"
	put("wlan0")
	_, server = listen(address)
	expect("current wlan0", "synced ")
	put("stop")
	expect("created stop")
	if err := <-done; err == nil || err.Error() != "enough" {
		t.Errorf("Watch = %v; want what its caller ended it with", err)
	}
	server.Stop(time.Second)
	if err := <-retries; !errors.Is(err, ErrLost) && !errors.Is(err, ErrUnreachable) {
		t.Errorf("the first retry was told of %v; want a lost connection", err)
	}
}

// cutting is a node that cuts a watch within its first list.
type cutting struct {
	machinepb.UnimplementedMachineServiceServer
	asked chan *machinepb.WatchRequest
}

func (c cutting) Watch(req *machinepb.WatchRequest, s machinepb.MachineService_WatchServer) error {
	c.asked <- req
	list := []*machinepb.WatchEvent{
		{Op: machinepb.WatchEvent_LOST, Sequence: 900, Lost: 70, Epoch: "e"},
		{Op: machinepb.WatchEvent_CURRENT, Sequence: 899, Epoch: "e", Entry: &machinepb.ResourceEntry{Id: "eth0"}},
		{Op: machinepb.WatchEvent_SYNCED, Sequence: 900, Epoch: "e"},
	}
	for _, e := range list[:min(len(c.asked), 3)] {
		if err := s.Send(e); err != nil {
			return err
		}
	}
	return status.Error(codes.Unavailable, "cut")
}

// TestWatchCutWithinAList: resources went missing when a connection broke while
// they were listed, since the watch went on from the number of the last one.
func TestWatchCutWithinAList(t *testing.T) {
	l := newLab(t)
	node := cutting{asked: make(chan *machinepb.WatchRequest, 4)}
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(pki.NodeTLS(l.pki, at(0)))))
	machinepb.RegisterMachineServiceServer(s, node)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(listener) }()
	defer s.Stop()
	c := dial(t, listener.Addr().String(), l.bundle(t, pki.RoleReader), Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_ = c.Watch(ctx, "LinkStatus", "", func(*machinepb.WatchEvent) error { return nil }, func(error, time.Duration) {
		if len(node.asked) == 4 {
			cancel()
		}
	})
	for i, want := range []uint64{0, 0, 0, 900} { // after nothing, LOST, CURRENT, SYNCED
		if req := <-node.asked; req.GetAfter() != want || (req.GetEpoch() == "") != (want == 0) {
			t.Errorf("try %d asks for what came after %d of %q; want %d", i, req.GetAfter(), req.GetEpoch(), want)
		}
	}
}

// TestWatchRefused checks that what does not mend itself is not retried.
func TestWatchRefused(t *testing.T) {
	l := newLab(t)
	_, addr := l.serve(t)
	never := func(err error, _ time.Duration) { t.Errorf("retried after %v", err) }
	event := func(*machinepb.WatchEvent) error { return nil }
	c := dial(t, addr, l.bundle(t, pki.RoleReader), Options{})
	if err := c.Watch(t.Context(), "Nonsense", "", event, never); !errors.Is(err, ErrUnknownKind) {
		t.Errorf("Watch of an unknown kind = %v; want %v", err, ErrUnknownKind)
	}
	if err := c.Watch(t.Context(), "LinkStatus", "block", event, never); !errors.Is(err, ErrNamespace) {
		t.Errorf("Watch in a wrong namespace = %v; want %v", err, ErrNamespace)
	}
	gone := dial(t, "127.0.0.1:1", l.bundle(t, pki.RoleReader), Options{})
	if err := gone.Watch(t.Context(), "LinkStatus", "", event, never); !errors.Is(err, ErrUnreachable) {
		t.Errorf("Watch of nobody = %v; want %v", err, ErrUnreachable)
	}
}
