package reconcile

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"machined/reconcile/resource"
)

// newBench returns a store, locked as on a node, with n links.
func newBench(b *testing.B, n int) (*Store, Owner) {
	b.Helper()
	s := NewStore(new(sync.Mutex))
	by, err := s.Register("bench", Output{Kind: resource.LinkStatusKind})
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		if err := s.Links.Put(by, resource.LinkStatus{Name: "enp3s0f" + strconv.Itoa(i), MTU: 1500}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	return s, by
}

func BenchmarkStoreUpdate(b *testing.B) {
	s, by := newBench(b, 64)
	v, meta, _ := s.Links.Get(resource.Named("enp3s0f7"))
	version := meta.Version
	for b.Loop() {
		var err error
		v.MTU++
		if version, err = s.Links.Update(by, v, version); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStoreGet(b *testing.B) {
	s, _ := newBench(b, 64)
	key := resource.Named("enp3s0f7")
	for b.Loop() {
		if _, _, ok := s.Links.Get(key); !ok {
			b.Fatal("the link is gone")
		}
	}
}

func BenchmarkStoreList64(b *testing.B) {
	s, _ := newBench(b, 64)
	list := make([]resource.LinkStatus, 0, 64)
	for b.Loop() {
		if list = s.Links.List(list[:0]); len(list) != 64 {
			b.Fatal("links are missing")
		}
	}
}

// idle is a controller with the inputs and the interval of a real one, and
// nothing to do.
type idle struct{ name string }

func (c idle) Spec() Spec {
	return Spec{
		Name: c.name, Inputs: []resource.Kind{resource.LinkSpecKind, resource.LinkStatusKind}, Interval: time.Hour,
		External: []func() uint64{func() uint64 { return 1 }},
	}
}

func (idle) Reconcile(*Run) error { return nil }

func newIdleLoop(tb testing.TB) *Loop {
	tb.Helper()
	l, err := NewLoop(NewStore(new(sync.Mutex)), 1)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range 25 {
		if err := l.Add(idle{"controller-" + strconv.Itoa(i)}); err != nil {
			tb.Fatal(err)
		}
	}
	l.Pass(time.Second)
	return l
}

func BenchmarkIdlePass(b *testing.B) {
	l := newIdleLoop(b)
	b.ReportAllocs()
	for b.Loop() {
		l.Pass(2 * time.Second)
	}
}
