package network

import (
	"testing"
	"time"

	"machined/hal"
	"machined/reconcile/resource"
)

// TestDefaults: what the config does not name is brought up when it is a wired
// link or the loopback, and left alone otherwise.
func TestDefaults(t *testing.T) {
	r := newRig(t)
	r.links.Add(hal.Link{Name: "lo", Loopback: true})
	r.links.Add(cable("eth0", 1))
	r.links.Add(hal.Link{Name: "wlan0", MAC: mac(2), Carrier: true})
	r.links.Add(hal.Link{Name: "veth1234", MAC: mac(3), Carrier: true})
	r.links.Add(cable("eth1", 4))
	r.links.Add(cable("eth2", 5))
	r.configure(Settings{Interfaces: []Interface{
		{Name: "eth1", Up: true, AcceptRA: true, Addresses: []hal.Prefix{p("10.7.0.2/24")}},
		{Name: "eth2", Up: false, DHCP4: true, AcceptRA: true, Addresses: []hal.Prefix{p("10.8.0.2/24")}},
	}})
	r.run(time.Second)
	for name, up := range map[string]bool{"lo": true, "eth0": true, "wlan0": false, "veth1234": false, "eth1": true, "eth2": false} {
		if got := r.link(name).Up; got != up {
			t.Errorf("%s is up: %v; want %v", name, got, up)
		}
	}
	for name, want := range map[string]resource.LinkSpec{
		"lo":   {Name: "lo", Up: true},
		"eth0": {Name: "eth0", Up: true, DHCP4: true, AcceptRA: true},
		"eth1": {Name: "eth1", Up: true, AcceptRA: true},
		"eth2": {Name: "eth2"},
	} {
		if got, _, ok := r.store.LinkSpecs.Get(resource.Named(name)); got != want || !ok {
			t.Errorf("the spec of %s is %+v, %v; want %+v", name, got, ok, want)
		}
	}
	if n := r.store.LinkSpecs.Len(); n != 4 {
		t.Errorf("%d links have specs; want 4", n)
	}
	r.expectAddresses("eth2")
	if r.store.Leases.Len() != 1 || r.lease("eth0").State != "SELECTING" {
		t.Error("another link than eth0 asks for a lease")
	}
	r.expectNoFailures()
}

// TestLinkOfTheConfigIsLowered: an interface that the config turns off loses its
// addresses, too.
func TestLinkOfTheConfigIsLowered(t *testing.T) {
	r := newRig(t)
	r.links.Add(cable("eth0", 1))
	r.configure(static())
	r.run(0)
	s := static()
	s.Interfaces[0].Up = false
	r.configure(s)
	r.run(0)
	r.expectAddresses("eth0")
	if r.link("eth0").Up {
		t.Error("the link is still up")
	}
	s.Interfaces[0].Up = true
	r.configure(s)
	r.run(0)
	r.expectStatic()
	r.expectNoFailures()
}

// TestRest: a node whose network is as it should be does nothing but look.
func TestRest(t *testing.T) {
	r, _ := leased(t)
	r.run(time.Minute)
	runs := func() (n uint64) {
		for _, c := range r.store.Snapshot(resource.ControllerStatusKind) {
			n += c.Resource.(resource.ControllerStatus).Runs
		}
		return n
	}
	before := runs()
	r.expectRest(10 * time.Minute)
	// Observe looks each 10 s; the host name, the resolver and Apply each 30 s.
	if got, most := runs()-before, uint64(60+3*20+5); got > most {
		t.Errorf("%d runs in 10 minutes of rest; want %d at most", got, most)
	}
}

// TestManyLinks: the pods of a full node bring links that nobody asked for.
func TestManyLinks(t *testing.T) {
	r, _ := leased(t)
	for i := range 250 {
		r.links.Add(hal.Link{Name: "veth" + string(rune('0'+i/100)) + string(rune('0'+i/10%10)) + string(rune('0'+i%10)), Up: true, Carrier: true})
	}
	r.run(time.Second)
	if n := r.store.Links.Len(); n != 252 {
		t.Errorf("%d links are published; want 252", n)
	}
	if n := r.store.LinkSpecs.Len(); n != 2 {
		t.Errorf("%d links have specs; want 2", n)
	}
	r.expectNoFailures()
	r.expectRest(time.Minute)
}
