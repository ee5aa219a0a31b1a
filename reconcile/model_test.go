package reconcile

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"machined/hal"
	"machined/reconcile/resource"
)

// model is the store as one would write it down first: a list, searched from
// the start, and all changes there ever were.
type model struct {
	entries []modelEntry
	log     []modelEvent
}

type modelEntry struct {
	value   resource.LinkSpec
	owner   Owner
	version uint64
	tearing bool
	holders map[Owner]bool
}

type modelEvent struct {
	op    Op
	value resource.LinkSpec
}

func (m *model) find(name string) int {
	return slices.IndexFunc(m.entries, func(e modelEntry) bool { return e.value.Name == name })
}

func (m *model) note(op Op, v resource.LinkSpec) uint64 {
	m.log = append(m.log, modelEvent{op, v})
	return uint64(len(m.log)) + 1 // the store's numbers begin at 1
}

func (m *model) put(by Owner, v resource.LinkSpec) error {
	i := m.find(v.Name)
	switch {
	case i < 0:
		m.entries = append(m.entries, modelEntry{value: v, owner: by, version: m.note(Created, v), holders: map[Owner]bool{}})
	case m.entries[i].owner != by:
		return ErrOwner
	case m.entries[i].value != v || m.entries[i].tearing:
		e := &m.entries[i]
		e.value, e.tearing, e.version = v, false, m.note(Updated, v)
	}
	return nil
}

func (m *model) update(by Owner, v resource.LinkSpec, version uint64) error {
	i := m.find(v.Name)
	switch {
	case i < 0:
		return hal.ErrNotFound
	case m.entries[i].owner != by:
		return ErrOwner
	case m.entries[i].version != version:
		return ErrConflict
	case m.entries[i].tearing:
		return ErrTearingDown
	}
	return m.put(by, v)
}

func (m *model) teardown(by Owner, name string) error {
	i := m.find(name)
	switch {
	case i < 0:
		return hal.ErrNotFound
	case m.entries[i].owner != by:
		return ErrOwner
	case len(m.entries[i].holders) == 0:
		m.remove(i)
	case !m.entries[i].tearing:
		m.entries[i].tearing, m.entries[i].version = true, m.note(Updated, m.entries[i].value)
	}
	return nil
}

func (m *model) remove(i int) {
	m.note(Destroyed, m.entries[i].value)
	m.entries = slices.Delete(m.entries, i, i+1)
}

func (m *model) hold(by Owner, name string) error {
	i := m.find(name)
	if i < 0 {
		return hal.ErrNotFound
	}
	if m.entries[i].tearing {
		return ErrTearingDown
	}
	m.entries[i].holders[by] = true
	return nil
}

func (m *model) letGo(by Owner, name string) {
	if i := m.find(name); i >= 0 {
		delete(m.entries[i].holders, by)
		if m.entries[i].tearing && len(m.entries[i].holders) == 0 {
			m.remove(i)
		}
	}
}

func (m *model) destroy(by Owner, name string) error {
	i := m.find(name)
	if i >= 0 && m.entries[i].owner == by && len(m.entries[i].holders) > 0 {
		return ErrFinalizers
	}
	return m.teardown(by, name)
}

// set makes v all that an owner wants.
func set(s *Store, m *model, by Owner, v resource.LinkSpec) (got, want error) {
	s.LinkSpecs.Begin()
	got, want = s.LinkSpecs.Put(by, v), m.put(by, v)
	s.LinkSpecs.Sweep(by)
	for i := len(m.entries) - 1; i >= 0; i-- {
		if e := m.entries[i]; e.owner == by && (e.value != v || want != nil) {
			_ = m.teardown(by, e.value.Name)
		}
	}
	return got, want
}

// watcher rebuilds the table from what Watch tells.
type watcher struct {
	at   uint64
	seen map[string]resource.LinkSpec
}

func (w *watcher) look(t *testing.T, s *Store, m *model) {
	t.Helper()
	behind := uint64(len(m.log)) + 1 - w.at
	changes, at := s.Watch(resource.LinkSpecKind, w.at, nil)
	lost := len(changes) > 0 && changes[0].Op == Lost
	if lost != (w.at != 0 && behind > RingSize) || lost && changes[0].Lost != behind {
		t.Fatalf("%d changes behind, Watch begins with %+v", behind, changes[:1])
	}
	if lost || w.at == 0 {
		w.seen = make(map[string]resource.LinkSpec)
	}
	for _, c := range changes {
		switch c.Op {
		case Lost, Synced:
		case Destroyed:
			delete(w.seen, c.Key.Name)
		default:
			w.seen[c.Key.Name] = c.Resource.(resource.LinkSpec)
		}
	}
	w.at = at
	if len(w.seen) != len(m.entries) {
		t.Fatalf("a watcher sees %d resources; want %d", len(w.seen), len(m.entries))
	}
	for _, e := range m.entries {
		if w.seen[e.value.Name] != e.value {
			t.Fatalf("a watcher sees %+v; want %+v", w.seen[e.value.Name], e.value)
		}
	}
}

// TestStoreAgainstModel makes the same random calls of the store and of the
// naive model. A failure names its seed.
func TestStoreAgainstModel(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { againstModel(t, seed) })
	}
}

func againstModel(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	s, m := NewStore(nil), &model{}
	var owners []Owner
	for i := range 3 {
		by, err := s.Register(fmt.Sprint("owner ", i), Output{Kind: resource.LinkSpecKind, Shared: true})
		if err != nil {
			t.Fatal(err)
		}
		owners = append(owners, by)
	}
	var eager, lazy watcher
	for step := range 1000 {
		name, by := fmt.Sprint("l", random.IntN(24)), owners[random.IntN(3)]
		v := resource.LinkSpec{Name: name, MTU: uint32(random.IntN(3))}
		var got, want error
		switch random.IntN(8) {
		case 0, 1:
			got, want = s.LinkSpecs.Put(by, v), m.put(by, v)
		case 2:
			_, meta, _ := s.LinkSpecs.Get(resource.Named(name))
			version := meta.Version - uint64(random.IntN(2))
			_, got = s.LinkSpecs.Update(by, v, version)
			want = m.update(by, v, version)
		case 3:
			_, got = s.LinkSpecs.Teardown(by, resource.Named(name))
			want = m.teardown(by, name)
		case 4:
			got, want = s.LinkSpecs.AddFinalizer(by, resource.Named(name)), m.hold(by, name)
		case 5:
			s.LinkSpecs.RemoveFinalizer(by, resource.Named(name))
			m.letGo(by, name)
		case 6:
			got, want = s.LinkSpecs.Destroy(by, resource.Named(name)), m.destroy(by, name)
		case 7: // a set of few
			got, want = set(s, m, by, v)
		}
		if !errors.Is(got, want) {
			t.Fatalf("step %d: the store says %v; want %v", step, got, want)
		}
		compare(t, s, m)
		eager.look(t, s, m)
		if random.IntN(60) == 0 {
			lazy.look(t, s, m)
		}
	}
}

func compare(t *testing.T, s *Store, m *model) {
	t.Helper()
	if s.LinkSpecs.Len() != len(m.entries) {
		t.Fatalf("Len() = %d; want %d", s.LinkSpecs.Len(), len(m.entries))
	}
	for i, e := range m.entries {
		if v, _ := s.LinkSpecs.At(i); v != e.value {
			t.Fatalf("At(%d) = %+v; want %+v", i, v, e.value)
		}
		_, meta, ok := s.LinkSpecs.Get(resource.Named(e.value.Name))
		if !ok || meta.Owner != e.owner || meta.Version != e.version || (meta.Phase == TearingDown) != e.tearing {
			t.Fatalf("Get(%s) = %+v, %v; want %+v", e.value.Name, meta, ok, e)
		}
	}
	list := s.LinkSpecs.List(nil)
	if !slices.EqualFunc(list, m.entries, func(v resource.LinkSpec, e modelEntry) bool { return cmp.Compare(v.Name, e.value.Name) == 0 }) {
		t.Fatalf("List() = %v; want the order of creation", list)
	}
}
