package main

import (
	"machined/hal"
	"machined/init/supervise"
	"machined/reconcile"
	"machined/reconcile/block"
	"machined/reconcile/network"
	"machined/reconcile/resource"
)

// conditions are the facts that services wait for, as the store has them. Its
// reasons are constants: it is asked at each pass.
type conditions struct {
	store *reconcile.Store
	// untimed reports whether the config does without time servers.
	untimed func() bool
}

// Gate implements supervise.Conditions.
func (c *conditions) Gate(g supervise.Gate) (met bool, why string) {
	if g == supervise.GateTime {
		return c.time()
	}
	return c.network()
}

// time is met once a server has said what time it is, or when none is ever to be
// asked: nothing better than the clock's floor will come.
func (c *conditions) time() (met bool, why string) {
	status, _, _ := c.store.Time.Get(resource.TimeStatus{}.Key())
	if status.Synced || status.SyncCount > 0 || c.untimed() {
		return true, ""
	}
	return false, ": no server has answered yet"
}

// network is met with a default route, and an address of the same family on its
// link that others can reach.
func (c *conditions) network() (met bool, why string) {
	routed := false
	for i := range c.store.Routes.Len() {
		r, _ := c.store.Routes.At(i)
		if r.Destination.Bits != 0 || r.Destination.Address.Len == 0 || r.Link == network.Loopback {
			continue
		}
		routed = true
		for j := range c.store.Addresses.Len() {
			a, _ := c.store.Addresses.At(j)
			if a.Link == r.Link && a.Address.Address.Len == r.Destination.Address.Len && !linkLocal(a.Address.Address) {
				return true, ""
			}
		}
	}
	if routed {
		return false, ": the link of the default route has no address yet"
	}
	return false, ": there is no default route yet"
}

// linkLocal reports whether an address is of one link alone (RFC 3927, RFC 4291).
func linkLocal(a hal.Address) bool {
	if a.Len == 4 {
		return a.Bytes[0] == 169 && a.Bytes[1] == 254
	}
	return a.Bytes[0] == 0xfe && a.Bytes[1]&0xc0 == 0x80
}

// Volume implements supervise.Conditions.
func (c *conditions) Volume(name string) (met bool, why string) {
	v, _, ok := c.store.Volumes.Get(resource.Named(name))
	switch {
	case ok && v.Phase == block.Ready:
		return true, ""
	case v.Message != "":
		return false, ", see VolumeStatus" // its message may be long, and change
	}
	return false, ", which is not there yet"
}

var _ supervise.Conditions = (*conditions)(nil)
