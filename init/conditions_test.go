package main

import (
	"strings"
	"testing"

	"machined/hal"
	"machined/init/supervise"
	"machined/reconcile"
	"machined/reconcile/block"
	"machined/reconcile/resource"
)

func prefix(bits uint8, address ...byte) hal.Prefix {
	p := hal.Prefix{Bits: bits}
	p.Address.Len = uint8(len(address))
	copy(p.Address.Bytes[:], address)
	return p
}

// TestConditions moves the store from an empty one to one in which all is met.
func TestConditions(t *testing.T) {
	r := newRig(t)
	by, err := r.store.Register("test", reconcile.Output{Kind: resource.RouteStatusKind}, reconcile.Output{Kind: resource.AddressStatusKind},
		reconcile.Output{Kind: resource.TimeStatusKind}, reconcile.Output{Kind: resource.VolumeStatusKind})
	mustDo(t, err)
	untimed := false
	c := &conditions{store: r.store, untimed: func() bool { return untimed }}
	network := func(want string) {
		t.Helper()
		if met, why := c.Gate(supervise.GateNetwork); met != (want == "") || !strings.Contains(why, want) {
			t.Errorf("the network is %v, %q; want %q", met, why, want)
		}
	}
	network("no default route")
	mustDo(t, r.store.Routes.Put(by, resource.RouteStatus{Link: "eth0", Destination: prefix(24, 10, 0, 0, 0)}))
	network("no default route")
	mustDo(t, r.store.Routes.Put(by, resource.RouteStatus{Link: "eth0", Destination: prefix(0, 0, 0, 0, 0)}))
	for _, a := range []resource.AddressStatus{
		{Link: "eth0", Address: prefix(16, 169, 254, 1, 1)}, {Link: "eth1", Address: prefix(24, 10, 0, 0, 2)},
		{Link: "eth0", Address: prefix(64, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)},
		{Link: "eth0", Address: prefix(64, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)},
	} {
		mustDo(t, r.store.Addresses.Put(by, a))
		network("no address")
	}
	mustDo(t, r.store.Addresses.Put(by, resource.AddressStatus{Link: "eth0", Address: prefix(24, 10, 0, 0, 3)}))
	network("")

	if met, _ := c.Gate(supervise.GateTime); met {
		t.Error("the clock is taken for right before anybody was asked")
	}
	untimed = true
	if met, _ := c.Gate(supervise.GateTime); !met {
		t.Error("without time servers the gate never opens")
	}
	untimed = false
	mustDo(t, r.store.Time.Put(by, resource.TimeStatus{SyncCount: 1}))
	if met, _ := c.Gate(supervise.GateTime); !met {
		t.Error("the gate is shut though a server has answered")
	}

	for phase, want := range map[string]bool{block.Waiting: false, block.Failed: false, block.Ready: true} {
		mustDo(t, r.store.Volumes.Put(by, resource.VolumeStatus{Name: "STATE", Phase: phase, Message: "why"}))
		if met, why := c.Volume("STATE"); met != want || met != (why == "") {
			t.Errorf("a volume that is %s is met: %v, %q; want %v", phase, met, why, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { c.Gate(supervise.GateNetwork); c.Gate(supervise.GateTime); c.Volume("STATE") }); n != 0 {
		t.Errorf("to ask allocates %v times; want 0", n)
	}
}
