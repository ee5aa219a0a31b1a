package reconcile

import (
	"machined/hal"
	"machined/reconcile/resource"
)

// MaxEntries bounds each table: what a network, a disk or a client can make a
// node remember has to end somewhere.
const MaxEntries = 1024

// Phase is where a resource is in its life.
type Phase uint8

const (
	Running Phase = iota
	// TearingDown: the owner wants it gone, and the holders of its finalizers
	// have something to clear away first.
	TearingDown
)

// Meta is what the store knows of a resource beside its value.
type Meta struct {
	// Version is the sequence number, within the kind, of the last change of
	// value or phase.
	Version uint64
	Owner   Owner
	Phase   Phase
	// Finalizers has the bit 1<<o for each owner o that must let go before the
	// resource can be destroyed.
	Finalizers uint64
}

// Table holds the resources of one kind, in the order of their creation. Its
// methods belong to the goroutine that owns the store.
type Table[T Value] struct {
	tableCore
	entries []entry[T]
	// index is a hash table with open addressing. Its length is a power of two,
	// at least twice that of entries. A word of it has the place in entries
	// plus one in its lower half, 0 for none, and the top of the hash above.
	index []uint32
	mark  uint32 // of the set that is being written; see Begin
}

type entry[T Value] struct {
	key   resource.Key
	value T
	meta  Meta
	mark  uint32
}

func (t *Table[T]) core() *tableCore { return &t.tableCore }

// Len returns the number of resources, those tearing down included.
func (t *Table[T]) Len() int { return len(t.entries) }

// At returns the ith resource in the order of creation. A change of the table
// may move it.
func (t *Table[T]) At(i int) (T, Meta) { return t.entries[i].value, t.entries[i].meta }

// Get returns a resource.
func (t *Table[T]) Get(key resource.Key) (value T, meta Meta, ok bool) {
	if i := t.find(&key); i >= 0 {
		e := &t.entries[i]
		return e.value, e.meta, true
	}
	return value, meta, false
}

// List appends all resources to out, in the order of creation.
func (t *Table[T]) List(out []T) []T {
	for i := range t.entries {
		out = append(out, t.entries[i].value)
	}
	return out
}

// Create adds a resource and returns its version. hal.ErrExists when one of its
// key is there, ErrFull when the table is.
func (t *Table[T]) Create(by Owner, v T) (uint64, error) {
	key := v.Key()
	if err := t.mayWrite(by); err != nil {
		return 0, t.fail("create", key, err)
	}
	if t.find(&key) >= 0 {
		return 0, t.fail("create", key, hal.ErrExists)
	}
	return t.create(by, key, v)
}

func (t *Table[T]) create(by Owner, key resource.Key, v T) (uint64, error) {
	if len(t.entries) >= MaxEntries {
		return 0, t.fail("create", key, ErrFull)
	}
	t.store.lock.Lock()
	seq := t.record(by, Created, key)
	t.entries = append(t.entries, entry[T]{key: key, value: v, meta: Meta{Version: seq, Owner: by}, mark: t.mark})
	t.place(len(t.entries) - 1)
	t.store.lock.Unlock()
	return seq, nil
}

// Update changes a resource that has the given version, and returns the new
// one. A value that says the same is no change. ErrConflict when somebody else
// was faster, hal.ErrNotFound when it is not there, ErrOwner when it is another
// owner's, ErrTearingDown when it is on its way out.
func (t *Table[T]) Update(by Owner, v T, version uint64) (uint64, error) {
	key := v.Key()
	if err := t.mayWrite(by); err != nil {
		return 0, t.fail("update", key, err)
	}
	i := t.find(&key)
	if i < 0 {
		return 0, t.fail("update", key, hal.ErrNotFound)
	}
	e := &t.entries[i]
	switch {
	case e.meta.Owner != by:
		return 0, t.fail("update", key, ErrOwner)
	case e.meta.Version != version:
		return 0, t.fail("update", key, ErrConflict)
	case e.meta.Phase != Running:
		return 0, t.fail("update", key, ErrTearingDown)
	}
	return t.set(by, e, &v), nil
}

// set writes a value, if it is another one, and revives what tears down.
func (t *Table[T]) set(by Owner, e *entry[T], v *T) uint64 {
	e.mark = t.mark
	if e.value == *v && e.meta.Phase == Running {
		return e.meta.Version
	}
	t.store.lock.Lock()
	e.meta.Version = t.record(by, Updated, e.key)
	e.value, e.meta.Phase = *v, Running
	t.store.lock.Unlock()
	return e.meta.Version
}

// Put creates a resource or updates it, whatever its version. One that its
// owner was tearing down is wanted again, and runs on.
func (t *Table[T]) Put(by Owner, v T) error {
	key := v.Key()
	if err := t.mayWrite(by); err != nil {
		return t.fail("put", key, err)
	}
	i := t.find(&key)
	if i < 0 {
		_, err := t.create(by, key, v)
		return err
	}
	e := &t.entries[i]
	if e.meta.Owner != by {
		return t.fail("put", key, ErrOwner)
	}
	t.set(by, e, &v)
	return nil
}

// Destroy removes a resource. ErrFinalizers when somebody has yet to let go,
// hal.ErrNotFound when it is not there, ErrOwner when it is another owner's.
func (t *Table[T]) Destroy(by Owner, key resource.Key) error {
	i, err := t.owned("destroy", by, key)
	if err != nil {
		return err
	}
	if t.entries[i].meta.Finalizers != 0 {
		return t.fail("destroy", key, ErrFinalizers)
	}
	t.remove(by, i)
	return nil
}

// Teardown removes a resource as soon as nobody holds a finalizer of it, and
// reports whether it is gone already. Its errors are those of Destroy, without
// ErrFinalizers.
func (t *Table[T]) Teardown(by Owner, key resource.Key) (gone bool, err error) {
	i, err := t.owned("tear down", by, key)
	if err != nil {
		return false, err
	}
	return t.teardown(by, i), nil
}

func (t *Table[T]) teardown(by Owner, i int) (gone bool) {
	e := &t.entries[i]
	if e.meta.Finalizers == 0 {
		t.remove(by, i)
		return true
	}
	if e.meta.Phase == Running {
		t.store.lock.Lock()
		e.meta.Version, e.meta.Phase = t.record(by, Updated, e.key), TearingDown
		t.store.lock.Unlock()
	}
	return false
}

func (t *Table[T]) owned(op string, by Owner, key resource.Key) (int, error) {
	i := t.find(&key)
	switch {
	case i < 0:
		return 0, t.fail(op, key, hal.ErrNotFound)
	case t.entries[i].meta.Owner != by:
		return 0, t.fail(op, key, ErrOwner)
	}
	return i, nil
}

// AddFinalizer keeps a resource from being destroyed until by removes its
// finalizer. ErrTearingDown when it is on its way out already.
func (t *Table[T]) AddFinalizer(by Owner, key resource.Key) error {
	i := t.find(&key)
	switch {
	case i < 0:
		return t.fail("add a finalizer to", key, hal.ErrNotFound)
	case by == 0 || by > maxOwners:
		return t.fail("add a finalizer to", key, ErrOwner)
	case t.entries[i].meta.Phase != Running:
		return t.fail("add a finalizer to", key, ErrTearingDown)
	}
	t.store.lock.Lock()
	t.entries[i].meta.Finalizers |= 1 << by
	t.store.lock.Unlock()
	return nil
}

// RemoveFinalizer lets go. A resource that is tearing down goes with its last
// finalizer. One that is not there is no error.
func (t *Table[T]) RemoveFinalizer(by Owner, key resource.Key) {
	i := t.find(&key)
	if i < 0 {
		return
	}
	t.release(by, i)
}

func (t *Table[T]) release(by Owner, i int) {
	m := &t.entries[i].meta
	t.store.lock.Lock()
	m.Finalizers &^= 1 << by
	t.store.lock.Unlock()
	if m.Finalizers == 0 && m.Phase == TearingDown {
		t.remove(by, i)
	}
}

// letGo removes all finalizers of by: nobody else could.
func (t *Table[T]) letGo(by Owner) {
	for i := len(t.entries) - 1; i >= 0; i-- {
		if t.entries[i].meta.Finalizers&(1<<by) != 0 {
			t.release(by, i)
		}
	}
}

// Begin starts a set: what its owner Puts until Sweep is all that it wants.
func (t *Table[T]) Begin() { t.mark++ }

// Marked tells whether a resource has been written since Begin.
func (t *Table[T]) Marked(key resource.Key) bool {
	i := t.find(&key)
	return i >= 0 && t.entries[i].mark == t.mark
}

// Sweep tears down what by owns and has not Put since Begin.
func (t *Table[T]) Sweep(by Owner) {
	for i := len(t.entries) - 1; i >= 0; i-- {
		if e := &t.entries[i]; e.meta.Owner == by && e.mark != t.mark {
			t.teardown(by, i)
		}
	}
}

func (t *Table[T]) teardownOwned(by Owner) (left int) {
	for i := len(t.entries) - 1; i >= 0; i-- {
		if t.entries[i].meta.Owner == by && !t.teardown(by, i) {
			left++
		}
	}
	return left
}
