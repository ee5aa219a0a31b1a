package api

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"machined/api/machinepb"
	"machined/reconcile"
)

// Watch costs a client's share of memory, however slow it is: what it has not
// read is not kept for it, but counted as lost.
func (s *service) Watch(req *machinepb.WatchRequest, stream machinepb.MachineService_WatchServer) error {
	kind, err := findKind(req.GetType(), req.GetNamespace())
	if err != nil {
		return err
	}
	cert, name, err := caller(stream.Context())
	if err != nil {
		return err
	}
	if s.watches.Add(1) > maxWatches {
		s.watches.Add(-1)
		return status.Errorf(codes.ResourceExhausted, "%d watches are open on the node, which are as many as it serves; end one", maxWatches)
	}
	defer s.watches.Add(-1)
	epoch, at := s.node.Epoch(), uint64(0)
	if req.GetEpoch() == epoch {
		at = req.GetAfter()
	}
	expired := time.NewTimer(0)
	defer expired.Stop()
	var changes []reconcile.Change
	for {
		moved := s.node.Moved() // before the look: what moves after it is not missed
		// Anew each time, since the clock may have been set; that moves the store.
		now := s.now()
		if err := inForce(cert, name, now); err != nil {
			return err
		}
		expired.Reset(min(cert.NotAfter.Sub(now), 24*time.Hour) + time.Second)
		changes, at = s.node.Watch(kind, at, changes[:0])
		for _, c := range changes {
			if err := stream.Send(watchEvent(c, epoch)); err != nil {
				return err
			}
		}
		changes = emptied(changes)
		select {
		case <-moved:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-s.stopping:
			return status.Error(codes.Unavailable, "the node ends this watch; make it again")
		case <-expired.C:
		}
	}
}

// emptied keeps room for what comes after a snapshot, and not a snapshot's.
func emptied(changes []reconcile.Change) []reconcile.Change {
	if cap(changes) > 2*reconcile.RingSize {
		return nil
	}
	clear(changes) // the values may be gone from the store
	return changes
}

func watchEvent(c reconcile.Change, epoch string) *machinepb.WatchEvent {
	e := &machinepb.WatchEvent{Sequence: c.Seq, Epoch: epoch, Lost: c.Lost}
	switch c.Op {
	case reconcile.Current:
		e.Op = machinepb.WatchEvent_CURRENT
	case reconcile.Synced:
		e.Op = machinepb.WatchEvent_SYNCED
		return e
	case reconcile.Created:
		e.Op = machinepb.WatchEvent_CREATED
	case reconcile.Updated:
		e.Op = machinepb.WatchEvent_UPDATED
	case reconcile.Destroyed:
		e.Op = machinepb.WatchEvent_DESTROYED
	case reconcile.Lost:
		e.Op = machinepb.WatchEvent_LOST
		return e
	}
	e.Entry = entry(c)
	return e
}
