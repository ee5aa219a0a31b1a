package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"machined/reconcile/resource"
)

const (
	// settleWithin bounds the time from the end of all trouble until the node is
	// what its config says: leases of an hour have to run out, and servers that
	// sent the node away are asked again after an hour.
	settleWithin = 4 * time.Hour
	rest         = time.Hour
	// retriesMost is how often what cannot succeed is tried in that time.
	retriesMost = 70
)

// outcome is how a seed has gone.
type outcome struct {
	seed      uint64
	violation *violation
	counts    counts
	hash      uint64
	tail      []string
}

// simulate runs one seed.
func simulate(seed uint64, s sabotage, verbose io.Writer) outcome {
	w := newWorld(seed, s, verbose)
	w.powerOn()
	for _, other := range w.stores {
		if other != w.boot {
			w.later(pick(w, 0, second, w.seconds(1, 300)), func() { w.plug(other) })
		}
	}
	w.nextChaos = w.now() + dur(w.seconds(0, 30))
	w.run(w.now() + dur(w.between(2*minute, 15*minute)))
	w.calm()
	w.converge()
	w.counts.simulated = w.now()
	w.trace.sum(fmt.Sprint(w.counts, w.node.store.Moves(), w.clock.Now()))
	return outcome{seed, w.violation, w.counts, w.trace.hash, w.trace.tail()}
}

// converge waits until all is as it should be, and looks whether it stays so.
func (w *world) converge() {
	// What was planned before is over by then, and no lease is from before.
	w.run(w.now() + 70*time.Minute)
	end := w.now() + settleWithin
	missing := w.missing()
	for missing != "" && w.violation == nil {
		if w.now() >= end {
			w.fail("convergence", "after %v of calm: %s", settleWithin, missing)
			return
		}
		w.run(w.now() + 3*time.Minute)
		missing = w.missing()
	}
	before, made := w.sequences(), w.counts.provisions
	changed := w.containers.mutations
	w.run(w.now() + rest)
	w.stayed(before)
	if n := w.counts.provisions - made; n > retriesMost {
		w.fail("rest", "in %v of calm volumes were provisioned %d times; want %d at most", rest, n, retriesMost)
	}
	if n := w.containers.mutations - changed; n > 0 {
		w.fail("rest", "in %v of calm the container runtime was told to change something %d times", rest, n)
	}
	w.tally()
}

// missing says what is not as it should be.
func (w *world) missing() string {
	v := &verdict{may: map[string]bool{}, must: map[string]bool{}}
	w.judgeNetwork(v)
	w.judgeBlock(v)
	w.judgeTime(v)
	w.judgePods(v)
	t := &w.node.store.Controllers
	for i := range t.Len() {
		c, _ := t.At(i)
		switch {
		case c.LastError != "" && !v.may[c.Name] && !v.must[c.Name]:
			v.miss("%s has the error %q", c.Name, c.LastError)
		case c.LastError == "" && v.must[c.Name]:
			v.miss("%s has no error, and cannot have succeeded", c.Name)
		}
	}
	return v.missing
}

// sequences returns the number of changes of each kind.
func (w *world) sequences() []uint64 {
	var out []uint64
	for _, k := range resource.Kinds() {
		out = append(out, w.node.store.Seq(k))
	}
	return out
}

// stayed checks that nothing has moved but what moves with time.
func (w *world) stayed(before []uint64) {
	v := &verdict{may: map[string]bool{}, must: map[string]bool{}}
	w.judgeBlock(v)
	var moved []string
	for i, k := range resource.Kinds() {
		switch k {
		case resource.ControllerStatusKind, resource.TimeStatusKind, resource.LeaseStatusKind:
			continue
		case resource.VolumeStatusKind:
			if v.may["volumes"] {
				continue // it is tried again and again
			}
		}
		if n := w.node.store.Seq(k) - before[i]; n > 0 {
			moved = append(moved, fmt.Sprintf("%v %d times", k, n))
		}
	}
	if len(moved) > 0 && w.violation == nil {
		w.fail("rest", "in %v of calm there were changes: %s", rest, strings.Join(moved, ", "))
	}
	if missing := w.missing(); missing != "" {
		w.fail("convergence", "after all was well once: %s", missing)
	}
}

// tally counts how it ended.
func (w *world) tally() {
	s := w.node.store
	for i := range s.Volumes.Len() {
		switch v, _ := s.Volumes.At(i); v.Phase {
		case "Ready":
			w.counts.ready++
		case "Refused":
			w.counts.refused++
		case "Failed":
			w.counts.failed++
		}
	}
	for i := range s.Leases.Len() {
		if l, _ := s.Leases.At(i); l.Address.Address.Len != 0 {
			w.counts.leases++
		}
	}
	for i := range s.Pods.Len() {
		if p, _ := s.Pods.At(i); p.Phase == "Running" {
			w.counts.pods++
		}
	}
	w.counts.pulls = w.containers.pulls
	if t, _, _ := s.Time.Get(resource.TimeStatus{}.Key()); t.Synced {
		w.counts.synced++
	}
}
