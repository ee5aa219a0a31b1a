package api_test

import (
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"machined/api/machinepb"
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
