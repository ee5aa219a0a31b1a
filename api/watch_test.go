package api_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"machined/api/apitest"
	"machined/api/machinepb"
	"machined/api/pki"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// watched is a lab whose node has a real store.
type watched struct {
	*lab
	by     reconcile.Owner
	client machinepb.MachineServiceClient
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{lab: newLab(t)}
	w.node.Store = reconcile.NewStore(new(sync.Mutex))
	var err error
	if w.by, err = w.node.Store.Register("test", reconcile.Output{Kind: resource.LinkStatusKind}); err != nil {
		t.Fatal(err)
	}
	w.client = machinepb.NewMachineServiceClient(w.dial(t, w.bundle(t, "os:reader")))
	return w
}

func (w *watched) put(t *testing.T, name string, mtu uint32) {
	t.Helper()
	if err := w.node.Store.Links.Put(w.by, resource.LinkStatus{Name: name, MTU: mtu}); err != nil {
		t.Fatal(err)
	}
	w.node.Kick()
}

func (w *watched) watch(t *testing.T, req *machinepb.WatchRequest) machinepb.MachineService_WatchClient {
	t.Helper()
	req.Type = "LinkStatus"
	stream, err := w.client.Watch(limited(t), req)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// next expects an event.
func next(t *testing.T, s machinepb.MachineService_WatchClient, op machinepb.WatchEvent_Op, id string) *machinepb.WatchEvent {
	t.Helper()
	e, err := s.Recv()
	if err != nil || e.GetOp() != op || e.GetEntry().GetId() != id {
		t.Fatalf("the next event is %v, %v; want %v of %q", e, err, op, id)
	}
	return e
}

func TestWatch(t *testing.T) {
	w := newWatched(t)
	w.put(t, "eth0", 1500)
	s := w.watch(t, &machinepb.WatchRequest{})
	next(t, s, machinepb.WatchEvent_CURRENT, "eth0")
	next(t, s, machinepb.WatchEvent_SYNCED, "")
	w.put(t, "eth1", 1500)
	next(t, s, machinepb.WatchEvent_CREATED, "eth1")
	w.put(t, "eth0", 9000)
	last := next(t, s, machinepb.WatchEvent_UPDATED, "eth0")
	if f := last.GetEntry().GetFields()[2]; f.GetKey() != "mtu" || f.GetValue() != "9000" {
		t.Errorf("the change tells %v; want mtu 9000", f)
	}
	w.put(t, "eth2", 1500)
	again := w.watch(t, &machinepb.WatchRequest{Epoch: last.GetEpoch(), After: last.GetSequence()})
	next(t, again, machinepb.WatchEvent_CREATED, "eth2")
	anew := w.watch(t, &machinepb.WatchRequest{Epoch: "of another start", After: last.GetSequence()})
	for _, id := range []string{"eth0", "eth1", "eth2"} {
		next(t, anew, machinepb.WatchEvent_CURRENT, id)
	}
}

// TestWatchSlow does not read while far more changes than any buffer holds go
// by. What is lost is said, with a number, and the end is right.
func TestWatchSlow(t *testing.T) {
	w := newWatched(t)
	s := w.watch(t, &machinepb.WatchRequest{})
	next(t, s, machinepb.WatchEvent_SYNCED, "")
	const changes = 20000
	for mtu := range uint32(changes) {
		w.put(t, "eth0", mtu+1)
	}
	seen, lost := 0, uint64(0)
	for {
		e, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if e.GetOp() == machinepb.WatchEvent_LOST {
			lost += e.GetLost()
			continue
		}
		if e.GetEntry() == nil {
			continue
		}
		seen++
		if e.GetEntry().GetFields()[2].GetValue() == "20000" {
			break
		}
	}
	t.Logf("of %d changes %d were sent and %d counted as lost; the others were overtaken", changes, seen, lost)
	if lost == 0 || seen >= changes {
		t.Errorf("%d events and %d lost; want fewer events, and a number of lost ones", seen, lost)
	}
}

func TestWatchEnds(t *testing.T) {
	w := newWatched(t)
	s := w.watch(t, &machinepb.WatchRequest{})
	next(t, s, machinepb.WatchEvent_SYNCED, "")
	stopped(t, w.lab, 5*time.Second, 3*time.Second) // a watch does not use the grace up
	if _, err := s.Recv(); status.Code(err) != codes.Unavailable || errors.Is(err, io.EOF) {
		t.Errorf("the watch ends with %v; want Unavailable", err)
	}
}

// TestWatchExpires tells of a watch that outlived its client's certificate: the
// time to its end was counted on a clock that had yet to be set.
func TestWatchExpires(t *testing.T) {
	w := newWatched(t)
	var off atomic.Int64
	now := func() time.Time { return made().Add(time.Duration(off.Load())) }
	_, addr := apitest.Serve(t, w.node, pki.NodeTLS(apitest.NewNode(t, w.ca, made()), now))
	w.addr = addr
	w.client = machinepb.NewMachineServiceClient(w.dial(t, w.bundle(t, "os:reader")))
	s := w.watch(t, &machinepb.WatchRequest{})
	next(t, s, machinepb.WatchEvent_SYNCED, "")
	for _, back := range []time.Duration{-time.Hour, 23 * time.Hour} {
		off.Store(int64(back))
		w.put(t, "eth0", uint32(back.Abs()/time.Hour))
		if _, err := s.Recv(); err != nil {
			t.Fatalf("the watch ends with the clock set by %s: %v", back, err)
		}
	}
	off.Store(int64(25 * time.Hour))
	w.node.Kick()
	if e, err := s.Recv(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("after the certificate's end the watch goes on with %v, %v; want Unauthenticated", e, err)
	}
}

// TestWatchLimit: each watch costs some 20 KB, and a client may ask for a
// thousand of them.
func TestWatchLimit(t *testing.T) {
	w := newWatched(t)
	b := w.bundle(t, "os:reader")
	var last context.CancelFunc
	open := func(client machinepb.MachineServiceClient) error {
		ctx, cancel := context.WithCancel(limited(t))
		last = cancel
		s, err := client.Watch(ctx, &machinepb.WatchRequest{Type: "LinkStatus"})
		if err == nil {
			_, err = s.Recv()
		}
		return err
	}
	var client machinepb.MachineServiceClient
	for i := range 64 {
		if i%15 == 0 {
			client = machinepb.NewMachineServiceClient(w.dial(t, b))
		}
		if err := open(client); err != nil {
			t.Fatalf("watch %d: %v", i+1, err)
		}
	}
	ends := last
	if err := open(client); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("watch 65 = %v; want ResourceExhausted", err)
	}
	ends()
	for deadline := time.Now().Add(10 * time.Second); open(client) != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the place of a watch that has ended stays taken")
		}
	}
}
