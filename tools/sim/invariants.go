package main

import (
	"slices"
	"strings"
	"time"

	"machined/reconcile"
	"machined/reconcile/resource"
)

// window counts passes, to see a loop that never rests.
type window struct {
	from    time.Duration
	passes  int
	changes uint64 // of the container runtime, when it was looked at
}

const (
	windowLength = 10 * time.Second
	windowMost   = 2000 // passes in a window
)

// check looks at what must hold at any time.
func (w *world) check() {
	if w.dead {
		return // the next start is what counts
	}
	w.checkPace()
	w.checkTables()
	w.checkForeign()
	w.checkVolumes()
	w.checkPods()
	w.checkErrors()
	if w.clock.Now() < built && !w.ledger.lowered {
		w.fail("floor", "the clock is at %v, before the program was built", time.Unix(0, w.clock.Now()).UTC())
	}
	if n := len(w.files.Paths()); n > w.fileBound() {
		w.fail("memory", "there are %d files, and names for %d: %q", n, w.fileBound(), w.files.Paths())
	}
	w.watch()
}

func (w *world) checkPace() {
	if w.now() >= w.window.from+windowLength {
		w.window = window{from: w.now(), changes: w.window.changes}
	}
	if w.window.passes++; w.window.passes > windowMost {
		w.fail("progress", "%d passes in %v: %s", w.window.passes, w.now()-w.window.from, w.node.busiest())
	}
}

func (w *world) fileBound() int {
	for _, n := range w.nics {
		w.ledger.names[n.name] = true
	}
	return (1+len(w.ledger.uuids))*(2+len(w.ledger.names)) + len(w.containers.kept)
}

// checkTables bounds each table by what is there.
func (w *world) checkTables() {
	s := w.node.store
	named := len(w.nics) + len(w.node.settings.Network.Interfaces)
	for _, b := range []struct {
		kind     resource.Kind
		len, max int
	}{
		{resource.LinkSpecKind, s.LinkSpecs.Len(), 2 * named}, {resource.LinkStatusKind, s.Links.Len(), 2 * named},
		{resource.AddressSpecKind, s.AddressSpecs.Len(), 12 * named}, {resource.RouteSpecKind, s.RouteSpecs.Len(), 24 * named},
		{resource.AddressStatusKind, s.Addresses.Len(), 24 * named}, {resource.RouteStatusKind, s.Routes.Len(), 48 * named},
		{resource.LeaseStatusKind, s.Leases.Len(), len(w.nics)}, {resource.DiskStatusKind, s.Disks.Len(), len(w.stores)},
		{resource.DiscoveredVolumeKind, s.Discovered.Len(), len(w.blocks.Devices())}, {resource.VolumeStatusKind, s.Volumes.Len(), 2},
		{resource.MountStatusKind, s.Mounts.Len(), 8}, {resource.TimeStatusKind, s.Time.Len(), 1},
		{resource.ControllerStatusKind, s.Controllers.Len(), 16}, {resource.PodStatusKind, s.Pods.Len(), len(w.node.settings.Runtime.Pods)},
		{resource.RuntimeStatusKind, s.Runtimes.Len(), 1},
	} {
		if b.len > b.max || b.len > reconcile.MaxEntries {
			w.fail("memory", "the table of %v has %d entries; want %d at most", b.kind, b.len, b.max)
		}
	}
}

// checkForeign looks for the addresses that others have put on links.
func (w *world) checkForeign() {
	for _, n := range w.nics {
		if len(n.addresses) == 0 {
			continue
		}
		all, _ := w.links.Addresses(n.index)
		for _, a := range n.addresses {
			if !slices.Contains(all, a) {
				w.fail("foreign address", "%v of %s, which is not the node's, is gone", a, n.name)
			}
		}
	}
}

// checkErrors looks for controllers that undo each other's work.
func (w *world) checkErrors() {
	t := &w.node.store.Controllers
	for i := range t.Len() {
		if c, _ := t.At(i); strings.HasPrefix(c.LastError, "livelock") {
			w.fail("livelock", "%s: %s", c.Name, c.LastError)
		}
	}
}
