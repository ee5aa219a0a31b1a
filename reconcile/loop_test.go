package reconcile

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"machined/reconcile/resource"
)

// budgets of allocations; the benchmarks show the times.
func TestNoAllocations(t *testing.T) {
	s := NewStore(new(sync.Mutex))
	by, err := s.Register("writer", Output{Kind: resource.LinkStatusKind})
	if err != nil {
		t.Fatal(err)
	}
	v := resource.LinkStatus{Name: "eth0", MTU: 1500}
	version, err := s.Links.Create(by, v)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]resource.LinkStatus, 0, 4)
	idle := newIdleLoop(t)
	for name, call := range map[string]func(){
		"Update":    func() { v.MTU++; version, err = s.Links.Update(by, v, version) },
		"Get":       func() { s.Links.Get(resource.Named("eth0")) },
		"List":      func() { list = s.Links.List(list[:0]) },
		"idle Pass": func() { idle.Pass(2 * time.Second) },
	} {
		if got := testing.AllocsPerRun(100, call); got != 0 || err != nil {
			t.Errorf("%s makes %v allocations (error %v); want none", name, got, err)
		}
	}
}

type panicking struct{ value any }

func (panicking) Spec() Spec             { return Spec{Name: "panicking"} }
func (c panicking) Reconcile(*Run) error { panic(c.value) }

// TestPanicIsAFailure: PID 1 must not end with a controller.
func TestPanicIsAFailure(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{"out of cheese", "panic: out of cheese"}, {errors.New("no cheese"), "panic: no cheese"}, {42, "panic"},
	} {
		s := NewStore(nil)
		l, err := NewLoop(s, 1)
		if err != nil {
			t.Fatal(err)
		}
		var stack string
		l.Panicked = func(string, any) {
			b := make([]byte, 4096)
			stack = string(b[:runtime.Stack(b, false)])
		}
		if err := l.Add(panicking{c.value}); err != nil {
			t.Fatal(err)
		}
		next := l.Pass(time.Second)
		status, _, _ := s.Controllers.Get(resource.Named("panicking"))
		if status.LastError != c.want || status.Failures != 1 || next < 2*time.Second {
			t.Errorf("after a panic with %v: %+v, next %v; want %q and a retry", c.value, status, next, c.want)
		}
		if !strings.Contains(stack, "panicking.Reconcile") {
			t.Errorf("Panicked does not see the stack of the panic:\n%s", stack)
		}
	}
}

// TestReadersBeside lets the API's readers run beside the loop; it is for the
// race detector. They must leave no goroutine behind, and the core starts none.
func TestReadersBeside(t *testing.T) {
	before := runtime.NumGoroutine()
	s := NewStore(new(sync.Mutex))
	by, err := s.Register("writer", Output{Kind: resource.LinkStatusKind})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			at := uint64(0)
			var out []Change
			for {
				select {
				case <-stop:
					return
				default:
				}
				out, at = s.Watch(resource.LinkStatusKind, at, out[:0])
				for _, c := range out {
					if c.Resource != nil && c.Resource.Key() != c.Key {
						t.Errorf("a change of %v tells of %v", c.Key, c.Resource.Key())
					}
				}
				s.Snapshot(resource.LinkStatusKind)
			}
		})
	}
	names := []string{"a", "b", "c", "d", "e"}
	for i := range uint32(20000) {
		name := names[i%5]
		if err := s.Links.Put(by, resource.LinkStatus{Name: name, MTU: i}); err != nil {
			t.Fatal(err)
		}
		_ = s.Links.AddFinalizer(by, resource.Named(name))
		if i%7 == 0 {
			if _, err := s.Links.Teardown(by, resource.Named(name)); err != nil {
				t.Fatal(err)
			}
			s.Links.RemoveFinalizer(by, resource.Named(name))
		}
	}
	close(stop)
	wg.Wait()
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines are left; want the %d from before", after, before)
	}
}
