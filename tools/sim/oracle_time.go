package main

import (
	"strings"
	"time"

	"machined/reconcile/resource"
	"machined/reconcile/timesync"
)

// tolerance is how far the clock may be off: a bad crystal between two rounds,
// and what is still being slewed.
const tolerance = 250 * time.Millisecond

// judgeTime compares the clock with the true time, where the honest servers are
// in the majority.
func (w *world) judgeTime(v *verdict) {
	status, _, _ := w.node.store.Time.Get(resource.TimeStatus{}.Key())
	if w.node.settings.Time.Disabled {
		if status.Synced {
			v.miss("time is synchronised though the config disables it")
		}
		return
	}
	if !w.honestMajority() || !w.routed() {
		return
	}
	if !status.Synced {
		v.miss("time is not synchronised: %s", status.Message)
	}
	if off := time.Duration(w.ntp.Error()); off > tolerance || off < -tolerance {
		v.miss("the clock is off by %v", off)
	}
}

func (w *world) honestMajority() bool {
	names := w.node.settings.Time.Servers
	if len(names) == 0 {
		leases := &w.node.store.Leases
		for i := range leases.Len() {
			lease, _ := leases.At(i)
			names = append(names, strings.Fields(lease.TimeServers)...)
		}
	}
	if len(names) == 0 {
		names = timesync.Fallback()
	}
	asked, honest, lying := 0, 0, 0
	for _, name := range names {
		for _, h := range w.hosts {
			away := h.Kiss == "RATE" || h.Kiss == "DENY"
			if h.Name != name || away || asked == 4 {
				continue
			}
			asked++
			switch {
			case h.honest:
				honest++
			case !h.Silent && h.Kiss == "" && h.Leap != 3 && h.RootDispersed < second:
				lying++
			}
		}
	}
	return honest > lying
}

func (w *world) routed() bool {
	all, _ := w.links.Routes()
	for _, r := range all {
		if n := w.nicOf(r.Link); n != nil && !n.loop {
			return true
		}
	}
	return false
}
