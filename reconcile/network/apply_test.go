package network

import (
	"strings"
	"testing"
	"time"

	"machined/hal"
	"machined/reconcile/resource"
)

// static is a config with one link that has everything.
func static() Settings {
	return Settings{Interfaces: []Interface{{
		Name: "eth0", Up: true, MTU: 1400, Addresses: []hal.Prefix{p("10.7.0.2/24"), p("fd07::2/64")},
		Routes: []Route{
			{Destination: p("0.0.0.0/0"), Gateway: ip("10.7.0.1"), Metric: 100},
			{Destination: p("10.99.1.1/16"), Gateway: ip("10.7.0.1")}, // the host's bits do not count
			{Destination: p("172.16.0.0/12"), Metric: 5},
			{Destination: p("::/0"), Gateway: p("fd07::1/64").Address},
			{Destination: p("fd99::/16"), Gateway: p("fd07::1/64").Address, Metric: 7},
		},
	}}}
}

func (r *rig) expectStatic() {
	r.t.Helper()
	r.expectAddresses("eth0", "10.7.0.2/24", "fd07::2/64")
	r.expectRoutes("eth0", "0.0.0.0/0 10.7.0.1 100", "10.99.0.0/16 10.7.0.1 0", "172.16.0.0/12  5", "::/0 fd07::1 1024", "fd99::/16 fd07::1 7")
	if l := r.link("eth0"); l.MTU != 1400 || !l.Up {
		r.t.Errorf("the link is %+v; want it up with MTU 1400", l)
	}
}

func TestStaticConfig(t *testing.T) {
	r := newRig(t)
	r.links.Add(cable("eth0", 1))
	r.configure(static())
	r.run(0)
	r.expectStatic()
	r.expectSent()
	r.expectNoFailures()
	r.expectRest(10 * time.Minute)
}

// TestLinkComesLateAndAgain: a link may appear at any time, with any index.
func TestLinkComesLateAndAgain(t *testing.T) {
	r := newRig(t)
	r.configure(static())
	r.run(time.Minute)
	if l, _, ok := r.store.Links.Get(resource.Named("eth0")); !ok || l.Index != 0 {
		t.Errorf("the status of a link that is waited for is %+v, %v; want it absent", l, ok)
	}
	r.expectNoFailures()
	for range 3 {
		r.links.Add(cable("eth0", 1))
		r.run(0)
		r.expectStatic()
		r.links.Remove(r.index("eth0"))
		r.run(0)
		if r.store.Addresses.Len() != 0 || r.store.Routes.Len() != 0 {
			t.Error("addresses or routes are left of a link that is gone")
		}
	}
	// It goes and comes between two looks.
	r.links.Add(cable("eth0", 1))
	r.run(0)
	r.links.Remove(r.index("eth0"))
	r.links.Add(cable("other", 7))
	r.links.Add(cable("eth0", 1))
	r.run(0)
	r.expectStatic()
	r.expectNoFailures()
}

// TestDrift has somebody else undo each thing. It is back at once.
func TestDrift(t *testing.T) {
	r := newRig(t)
	eth0 := r.links.Add(cable("eth0", 1))
	r.configure(static())
	r.run(0)
	for name, undo := range map[string]func() error{
		"address":      func() error { return r.links.RemoveAddress(eth0, p("10.7.0.2/24")) },
		"IPv6 address": func() error { return r.links.RemoveAddress(eth0, p("fd07::2/64")) },
		"route": func() error {
			return r.links.RemoveRoute(hal.Route{Link: eth0, Destination: p("0.0.0.0/0"), Gateway: ip("10.7.0.1"), Metric: 100})
		},
		"IPv6 route": func() error {
			return r.links.RemoveRoute(hal.Route{Link: eth0, Destination: p("::/0"), Gateway: p("fd07::1/64").Address})
		},
		"MTU":   func() error { return r.links.SetMTU(eth0, 1500) },
		"state": func() error { return r.links.SetUp(eth0, false) },
	} {
		if err := undo(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r.run(0)
		r.expectStatic()
	}
	r.expectNoFailures()
	r.expectRest(time.Minute)
}

// TestWhatOthersSetStays removes a config: what it had made goes, and nothing
// else.
func TestWhatOthersSetStays(t *testing.T) {
	r := newRig(t)
	eth0 := r.links.Add(hal.Link{Name: "eth0", Carrier: true, MAC: mac(1)}) // not wired: nothing by default
	r.configure(static())
	r.run(0)
	foreign := hal.Route{Link: eth0, Destination: p("10.50.0.0/16"), Gateway: ip("10.7.0.9"), Metric: 3}
	for _, err := range []error{r.links.AddAddress(eth0, p("10.7.0.77/24")), r.links.AddRoute(foreign)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r.run(time.Minute)
	s := static()
	s.Interfaces[0].Addresses = s.Interfaces[0].Addresses[1:]
	s.Interfaces[0].Routes = s.Interfaces[0].Routes[3:]
	s.Interfaces[0].MTU = 0
	r.configure(s)
	r.run(0)
	r.expectAddresses("eth0", "10.7.0.77/24", "fd07::2/64")
	r.expectRoutes("eth0", "10.50.0.0/16 10.7.0.9 3", "::/0 fd07::1 1024", "fd99::/16 fd07::1 7")
	if mtu := r.link("eth0").MTU; mtu != 1500 {
		t.Errorf("MTU %d after its config is gone; want the driver's 1500", mtu)
	}
	r.configure(Settings{})
	r.run(0)
	r.expectAddresses("eth0", "10.7.0.77/24")
	r.expectRoutes("eth0", "10.50.0.0/16 10.7.0.9 3")
	r.expectNoFailures()
	r.expectRest(time.Minute)
}

// TestExisting finds in place what the config asks for, as after a new start.
func TestExisting(t *testing.T) {
	r := newRig(t)
	r.links.Add(cable("eth0", 1))
	r.configure(static())
	r.run(0)
	changes := r.links.Changes()
	r.restart()
	r.run(time.Minute)
	if got := r.links.Changes(); got != changes {
		t.Errorf("a new start changed the kernel %d times; want none", got-changes)
	}
	r.expectStatic()
	// What is no longer wanted still goes.
	r.configure(Settings{Interfaces: []Interface{{Name: "eth0", Up: true}}})
	r.run(0)
	r.expectAddresses("eth0")
	r.expectRoutes("eth0")
	r.expectNoFailures()
}

func TestRenumbering(t *testing.T) {
	r := newRig(t)
	r.links.Add(cable("eth0", 1))
	r.configure(static())
	r.run(0)
	s := static()
	s.Interfaces[0].Addresses[0] = p("10.7.0.3/24")
	s.Interfaces[0].Routes[0].Gateway = ip("10.7.0.254") // in the place of the old one
	r.configure(s)
	r.run(0)
	r.expectAddresses("eth0", "10.7.0.3/24", "fd07::2/64")
	r.expectRoutes("eth0", "0.0.0.0/0 10.7.0.254 100", "10.99.0.0/16 10.7.0.1 0", "172.16.0.0/12  5", "::/0 fd07::1 1024", "fd99::/16 fd07::1 7")
	// From one link to another.
	r.links.Add(cable("eth1", 2))
	s.Interfaces[0].Name = "eth1"
	s.Interfaces = append(s.Interfaces, Interface{Name: "eth0", Up: true})
	r.configure(s)
	r.run(0)
	r.expectAddresses("eth0")
	r.expectAddresses("eth1", "10.7.0.3/24", "fd07::2/64")
	r.expectNoFailures()
}

// TestOneFailureIsNotAll: each thing is tried whatever fails beside it, and the
// one that failed is tried again.
func TestOneFailureIsNotAll(t *testing.T) {
	for method, left := range map[string]func(r *rig){
		"SetMTU":     func(r *rig) { r.expectAddresses("eth0", "10.7.0.2/24", "fd07::2/64") },
		"AddAddress": func(r *rig) { r.expectRoutes("eth0", "172.16.0.0/12  5") },
		"AddRoute":   func(r *rig) { r.expectAddresses("eth0", "10.7.0.2/24", "fd07::2/64") },
		"SetUp":      func(r *rig) { r.expectAddresses("eth0", "10.7.0.2/24", "fd07::2/64") },
	} {
		r := newRig(t)
		r.links.Add(cable("eth0", 1))
		r.configure(static())
		r.links.FailAlways(method, hal.ErrInvalid)
		r.run(3 * time.Second)
		left(r)
		status, _, _ := r.store.Controllers.Get(resource.Named("network-apply"))
		if !strings.HasPrefix(status.LastError, "eth0: ") || !strings.HasSuffix(status.LastError, hal.ErrInvalid.Error()) {
			t.Errorf("with %s failing the error is %q; want the link and the reason", method, status.LastError)
		}
		r.links.Heal(method)
		r.run(time.Minute)
		r.expectStatic()
		r.expectNoFailures()
	}
	// Removals that fail.
	for _, method := range []string{"RemoveAddress", "RemoveRoute"} {
		r := newRig(t)
		r.links.Add(cable("eth0", 1))
		r.configure(static())
		r.run(0)
		r.links.FailAlways(method, hal.ErrInvalid)
		r.configure(Settings{Interfaces: []Interface{{Name: "eth0", Up: true}}})
		r.run(3 * time.Second)
		if r.store.AddressSpecs.Len()+r.store.RouteSpecs.Len() == 0 {
			t.Errorf("with %s failing the specs are forgotten", method)
		}
		r.links.Heal(method)
		r.run(time.Minute)
		r.expectAddresses("eth0")
		r.expectRoutes("eth0")
		if n := r.store.AddressSpecs.Len() + r.store.RouteSpecs.Len(); n != 0 {
			t.Errorf("%d specs are left that nobody wants", n)
		}
		r.expectNoFailures()
	}
	// The kernel cannot be asked: what is known is kept.
	for _, method := range []string{"List", "Addresses", "Routes"} {
		r := newRig(t)
		r.links.Add(cable("eth0", 1))
		r.configure(static())
		r.run(0)
		r.links.FailAlways(method, hal.ErrInvalid)
		r.run(time.Minute)
		if r.store.Links.Len() != 1 || r.store.Addresses.Len() != 2 || r.store.Routes.Len() == 0 {
			t.Errorf("with %s failing %d links, %d addresses and %d routes are published; want the last known",
				method, r.store.Links.Len(), r.store.Addresses.Len(), r.store.Routes.Len())
		}
		r.links.Heal(method)
		r.run(time.Minute)
		r.expectStatic()
		r.expectNoFailures()
	}
}

// TestLinkGoesWhileApplying: what is observed may be out of date.
func TestLinkGoesWhileApplying(t *testing.T) {
	for _, method := range []string{"SetMTU", "SetUp", "AddAddress", "AddRoute", "RemoveAddress", "RemoveRoute"} {
		r := newRig(t)
		r.links.Add(cable("eth0", 1))
		r.configure(static())
		r.links.Fail(method, 1, hal.ErrNoDevice)
		r.run(0)
		r.configure(Settings{})
		r.run(time.Minute)
		for _, c := range r.store.Snapshot(resource.ControllerStatusKind) {
			if s := c.Resource.(resource.ControllerStatus); s.Failures != 0 {
				t.Errorf("%s of a link that went away is a failure of %s; want none", method, s.Name)
			}
		}
	}
}

// TestMTUPrecedence: the config's MTU beats that of DHCP.
func TestMTUPrecedence(t *testing.T) {
	r, s := newRig(t), server()
	s.Options.MTU = 1300
	r.dhcp.Join(s)
	r.links.Add(cable("eth0", 1))
	r.run(time.Second)
	if mtu := r.link("eth0").MTU; mtu != 1300 {
		t.Errorf("MTU %d; want the 1300 of DHCP", mtu)
	}
	r.configure(Settings{Interfaces: []Interface{{Name: "eth0", Up: true, DHCP4: true, MTU: 1450}}})
	r.run(time.Second)
	if mtu := r.link("eth0").MTU; mtu != 1450 {
		t.Errorf("MTU %d; want the config's 1450", mtu)
	}
	r.configure(Settings{Interfaces: []Interface{{Name: "eth0", Up: true}}})
	r.run(time.Second)
	if mtu := r.link("eth0").MTU; mtu != 1500 {
		t.Errorf("MTU %d; want the driver's 1500", mtu)
	}
}

// TestMTUOfDHCP tells of a modem whose MTU of 576 took IPv6, and those who came by
// it, from the node.
func TestMTUOfDHCP(t *testing.T) {
	six := hal.Prefix{Address: hal.Address{Len: 16, Bytes: [16]byte{0xfd, 15: 1}}, Bits: 64}
	for _, c := range []struct {
		link Interface
		mtu  uint32
		want uint32
	}{
		{Interface{}, 576, 576},
		{Interface{AcceptRA: true}, 576, 1500},
		{Interface{AcceptRA: true}, 1280, 1280},
		{Interface{Addresses: []hal.Prefix{six}}, 1279, 1500},
	} {
		r, s := newRig(t), server()
		s.Options.MTU = c.mtu
		r.dhcp.Join(s)
		r.links.Add(cable("eth0", 1))
		c.link.Name, c.link.Up, c.link.DHCP4 = "eth0", true, true
		r.configure(Settings{Interfaces: []Interface{c.link}})
		r.run(time.Second)
		if got := r.link("eth0").MTU; got != c.want {
			t.Errorf("with %+v and %d by DHCP the MTU is %d; want %d", c.link, c.mtu, got, c.want)
		}
	}
}

func TestSysctlsOfLinks(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"eth0", "eth1", "lo"} {
		r.host.AddSysctl("net/ipv6/conf/"+name+"/accept_ra", "1", nil)
		for _, key := range []string{"ipv4/conf/" + name + "/promote_secondaries", "ipv4/conf/" + name + "/ignore_routes_with_linkdown", "ipv6/conf/" + name + "/ignore_routes_with_linkdown"} {
			r.host.AddSysctl("net/"+key, "0", nil)
		}
	}
	r.links.Add(hal.Link{Name: "lo", Loopback: true})
	r.links.Add(cable("eth0", 1))
	r.links.Add(cable("eth1", 2))
	r.links.Add(cable("eth2", 3)) // without IPv6
	r.configure(Settings{Interfaces: []Interface{{Name: "eth1", Up: true}}})
	r.run(0)
	for key, want := range map[string]string{
		"ipv6/conf/eth0/accept_ra": "2", "ipv6/conf/eth1/accept_ra": "0", "ipv6/conf/lo/accept_ra": "1",
		"ipv4/conf/eth0/promote_secondaries": "1", "ipv4/conf/eth1/promote_secondaries": "1", "ipv4/conf/lo/promote_secondaries": "0",
		"ipv4/conf/eth0/ignore_routes_with_linkdown": "1", "ipv6/conf/eth1/ignore_routes_with_linkdown": "1", "ipv4/conf/lo/ignore_routes_with_linkdown": "0",
	} {
		if got, err := r.host.Sysctl("net/" + key); got != want || err != nil {
			t.Errorf("%s = %q, %v; want %q", key, got, err, want)
		}
	}
	r.expectNoFailures()
	// One that cannot be set keeps nothing else from being done.
	r.host.FailAlways("Sysctl", hal.ErrInvalid)
	r.links.Add(cable("eth3", 4))
	r.run(time.Second)
	if !r.link("eth3").Up {
		t.Error("a link is not up whose sysctls cannot be read")
	}
}
