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
	expired := time.NewTimer(cert.NotAfter.Sub(s.now()))
	defer expired.Stop()
	epoch, at := s.node.Epoch(), uint64(0)
	if req.GetEpoch() == epoch {
		at = req.GetAfter()
	}
	var changes []reconcile.Change
	for {
		moved := s.node.Moved() // before the look: what moves after it is not missed
		changes, at = s.node.Watch(kind, at, changes[:0])
		for _, c := range changes {
			if err := stream.Send(watchEvent(c, epoch)); err != nil {
				return err
			}
		}
		select {
		case <-moved:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-s.stopping:
			return status.Error(codes.Unavailable, "the node ends this watch; make it again")
		case <-expired.C:
			return status.Errorf(codes.Unauthenticated, "the client certificate of %s has expired", name)
		}
	}
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
