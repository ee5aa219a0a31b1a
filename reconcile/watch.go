package reconcile

import "machined/reconcile/resource"

// Op is what a Change tells.
type Op uint8

const (
	Created Op = iota + 1
	Updated
	Destroyed
	// Current is a resource of a snapshot, which Synced ends.
	Current
	Synced
	// Lost says that changes were missed; a snapshot follows.
	Lost
)

// RingSize is the number of changes of a kind that a watcher may be behind.
const RingSize = 64

// Change is one thing that happened to a kind.
type Change struct {
	Op Op
	// Seq is the change's number within the kind. A watch goes on from it.
	Seq uint64
	Key resource.Key
	// Resource is the value: nil for Destroyed, Synced and Lost.
	Resource resource.Resource
	Meta     Meta
	// Lost is the number of changes that were missed, for the op Lost.
	Lost uint64
}

type event struct {
	seq uint64
	key resource.Key
	op  Op
}

// tableCore is the part of a table that does not depend on the kind.
type tableCore struct {
	store *Store
	kind  resource.Kind
	seq   uint64 // of the last change
	ring  []event
	last  Owner // who made the last change
}

// record notes a change and returns its number. The store's lock is held.
func (t *tableCore) record(by Owner, op Op, key resource.Key) uint64 {
	if t.ring == nil {
		t.ring = make([]event, RingSize)
	}
	t.seq++
	t.store.moves++
	t.last = by
	t.ring[t.seq%RingSize] = event{seq: t.seq, key: key, op: op}
	return t.seq
}

// Watch appends to out what happened to a kind after the change numbered from,
// and returns out and the number to go on from. With from 0, or one that this
// store never gave, it is a snapshot of what is there. A watcher that is more
// than RingSize changes behind gets Lost, with their number, and a snapshot.
//
// Changes tell the present value. One that has been overtaken by another that
// follows is left out: the follower tells more.
//
// It may be called from any goroutine. out grows to MaxEntries and two at most.
func (s *Store) Watch(kind resource.Kind, from uint64, out []Change) ([]Change, uint64) {
	s.lock.Lock()
	defer s.lock.Unlock()
	t := s.tables[kind-1]
	c := t.core()
	switch {
	case from != 0 && from <= c.seq && c.seq-from <= RingSize:
		for seq := from + 1; seq <= c.seq; seq++ {
			out = t.change(out, &c.ring[seq%RingSize])
		}
		return out, c.seq
	case from != 0 && from <= c.seq:
		out = append(out, Change{Op: Lost, Seq: c.seq, Lost: c.seq - from})
	}
	out = t.snapshot(out)
	return append(out, Change{Op: Synced, Seq: c.seq}), c.seq
}

// Snapshot returns the resources of a kind. It may be called from any goroutine.
func (s *Store) Snapshot(kind resource.Kind) []Change {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.tables[kind-1].snapshot(nil)
}

func (t *Table[T]) snapshot(out []Change) []Change {
	for i := range t.entries {
		e := &t.entries[i]
		out = append(out, Change{Op: Current, Seq: e.meta.Version, Key: e.key, Resource: e.value, Meta: e.meta})
	}
	return out
}

// change appends the change of an event, unless another overtook it.
func (t *Table[T]) change(out []Change, ev *event) []Change {
	c := Change{Op: ev.op, Seq: ev.seq, Key: ev.key}
	if ev.op != Destroyed {
		i := t.find(&ev.key)
		if i < 0 || t.entries[i].meta.Version != ev.seq {
			return out
		}
		c.Resource, c.Meta = t.entries[i].value, t.entries[i].meta
	}
	return append(out, c)
}
