package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"machined/hal"
	"machined/hal/fake"
	"machined/hal/linux"
	"machined/init/config"
	"machined/reconcile/resource"
)

// wiring is a network on simulated links, whose DHCP is played by the test.
type wiring struct {
	*network
	t     *testing.T
	links *fake.Links
	out   published
	said  []string
	dhcp  map[string]*dhcpCall
}

// dhcpCall is a link that waits for a lease.
type dhcpCall struct {
	ctx     context.Context
	granted func(*lease)
	failed  func(error)
}

func newWiring(t *testing.T, cfg config.Network) *wiring {
	w := &wiring{t: t, links: &fake.Links{}, dhcp: map[string]*dhcpCall{}}
	w.links.Add(hal.Link{Name: loopback, Loopback: true, MTU: 65536})
	w.network = newNetwork(w.links, &w.out, cfg)
	w.say = func(format string, args ...any) { w.said = append(w.said, fmt.Sprintf(format, args...)) }
	w.spawn = func(_ string, run func()) { run() }
	w.kick = func() {}
	w.lease = func(ctx context.Context, link string, granted func(*lease), failed func(error)) {
		w.dhcp[link] = &dhcpCall{ctx, granted, failed}
	}
	w.resolvConf = filepath.Join(t.TempDir(), "run", "resolv.conf")
	return w
}

func parse(t *testing.T, text string) config.Network {
	t.Helper()
	c, _, err := config.Parse("test.yaml", []byte("machine: {network: "+text+"}"))
	mustDo(t, err)
	return c.Machine.Network
}

// addresses, routes and heard take what the API shows and what was said.
func (w *wiring) addresses() string {
	var all []string
	for _, r := range w.out.list(resource.AddressStatusKind) {
		a := r.(resource.AddressStatus)
		all = append(all, a.Link+" "+a.Address)
	}
	return strings.Join(all, ", ")
}

func (w *wiring) routes() string {
	var all []string
	for _, r := range w.out.list(resource.RouteStatusKind) {
		if a := r.(resource.RouteStatus); a.Gateway != "" {
			all = append(all, fmt.Sprintf("%s %s via %s %d", a.Link, a.Destination, a.Gateway, a.Metric))
		}
	}
	return strings.Join(all, ", ")
}

func (w *wiring) want(what, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %q; want %q", what, got, want)
	}
}

// heard checks what was said since the last time.
func (w *wiring) heard(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.said, want) {
		w.t.Errorf("said %q; want %q", w.said, want)
	}
	w.said = nil
}

func (w *wiring) resolvers() string {
	text, err := os.ReadFile(w.resolvConf)
	mustDo(w.t, err)
	return string(text)
}

func grant(address, gateway string, servers ...string) *lease {
	l := &lease{address: linux.PrefixFrom(netip.MustParsePrefix(address))}
	if gateway != "" {
		l.gateway = linux.AddressFrom(netip.MustParseAddr(gateway))
	}
	for _, s := range servers {
		l.nameservers = append(l.nameservers, netip.MustParseAddr(s))
	}
	return l
}

// TestStaticLink checks a link of the config, with nameservers: those of a node
// without DHCP never reached the resolver.
func TestStaticLink(t *testing.T) {
	w := newWiring(t, parse(t, `{interfaces: [{name: eth0, mtu: 1400, addresses: [10.0.0.2/24], routes: [{via: 10.0.0.1, metric: 5}]},
		{name: eth1, up: false}], nameservers: [9.9.9.9], search: [lan]}`))
	w.links.Add(hal.Link{Name: "eth0", Wired: true})
	w.links.Add(hal.Link{Name: "eth1", Wired: true, Up: true})
	w.step()
	w.want("addresses", w.addresses(), "eth0 10.0.0.2/24")
	w.want("routes", w.routes(), "eth0 0.0.0.0/0 via 10.0.0.1 5")
	w.want("resolv.conf", w.resolvers(), "nameserver 9.9.9.9\nsearch lan\n")
	for _, r := range w.out.list(resource.LinkStatusKind) {
		l := r.(resource.LinkStatus)
		want := map[string]resource.LinkStatus{loopback: {Up: true, MTU: 65536}, "eth0": {Up: true, MTU: 1400}, "eth1": {MTU: 1500}}[l.Name]
		if l.Up != want.Up || l.MTU != want.MTU {
			t.Errorf("link %s is %+v; want up %v, MTU %d", l.Name, l, want.Up, want.MTU)
		}
	}
	if len(w.dhcp) != 0 {
		t.Errorf("DHCP runs on %v; want none", w.dhcp)
	}
	w.heard("eth0 is up.")
	w.step()
	w.heard()
}

// TestDHCPByDefault checks that a wired link that the config does not name gets
// its address by DHCP, and no other.
func TestDHCPByDefault(t *testing.T) {
	w := newWiring(t, config.Network{})
	w.links.Add(hal.Link{Name: "eth0", Wired: true})
	w.links.Add(hal.Link{Name: "wlan0"})
	w.step()
	w.step()
	if len(w.dhcp) != 1 || w.dhcp["eth0"] == nil {
		t.Errorf("DHCP runs on %v; want eth0 alone", w.dhcp)
	}
}

// TestLateLink tells of USB adapters that were never tried again: one appears
// after the boot, goes and comes back under another index.
func TestLateLink(t *testing.T) {
	w := newWiring(t, parse(t, `{interfaces: [{name: usb0, dhcp4: true, addresses: [10.0.0.2/24]}]}`))
	w.step()
	w.want("addresses", w.addresses(), "")
	first := w.links.Add(hal.Link{Name: "usb0", Wired: true})
	w.step()
	w.heard("usb0 is up.")
	call := w.dhcp["usb0"]
	call.granted(grant("10.0.9.9/24", "10.0.9.1", "10.0.9.1"))
	w.step()
	w.want("addresses", w.addresses(), "usb0 10.0.0.2/24, usb0 10.0.9.9/24")
	w.want("resolv.conf", w.resolvers(), "nameserver 10.0.9.1\n")
	w.heard("usb0 has the address 10.0.9.9/24 by DHCP, gateway 10.0.9.1.")

	w.links.Remove(first)
	w.step()
	w.heard("usb0 is gone.")
	w.want("addresses", w.addresses(), "")
	w.want("resolv.conf", w.resolvers(), "")
	if call.ctx.Err() == nil {
		t.Error("DHCP goes on without its link")
	}
	call.granted(grant("10.0.9.9/24", "10.0.9.1")) // it was under way
	w.links.Add(hal.Link{Name: "usb0", Wired: true})
	w.step()
	w.want("addresses", w.addresses(), "usb0 10.0.0.2/24")
	if w.dhcp["usb0"] == call {
		t.Error("DHCP was not started again")
	}
	w.heard("usb0 is up.")
}

// TestLinkIsReplaced checks a link that went and came back between two looks.
func TestLinkIsReplaced(t *testing.T) {
	w := newWiring(t, config.Network{})
	first := w.links.Add(hal.Link{Name: "eth0", Wired: true})
	w.step()
	old := w.dhcp["eth0"]
	w.links.Remove(first)
	w.links.Add(hal.Link{Name: "eth0", Wired: true})
	w.step()
	w.heard("eth0 is up.", "eth0 is gone.", "eth0 is up.")
	if old.ctx.Err() == nil || w.dhcp["eth0"] == old {
		t.Error("the first link's DHCP goes on in place of the second's")
	}
}

func TestLeases(t *testing.T) {
	w := newWiring(t, config.Network{})
	w.links.Add(hal.Link{Name: "eth0", Wired: true}) // index 2
	w.step()
	w.said = nil
	for _, c := range []struct {
		name              string
		lease             *lease
		addresses, routes string
		resolvConf        string
		said              []string
	}{
		{"granted", grant("10.0.0.5/24", "10.0.0.1", "10.0.0.1", "10.0.0.2"), "eth0 10.0.0.5/24", "eth0 0.0.0.0/0 via 10.0.0.1 1026",
			"nameserver 10.0.0.1\nnameserver 10.0.0.2\n", []string{"eth0 has the address 10.0.0.5/24 by DHCP, gateway 10.0.0.1."}},
		{"renewed", grant("10.0.0.5/24", "10.0.0.1", "10.0.0.1"), "eth0 10.0.0.5/24", "eth0 0.0.0.0/0 via 10.0.0.1 1026",
			"nameserver 10.0.0.1\n", nil},
		{"replaced", grant("10.0.7.5/24", "10.0.7.1", "10.0.7.1"), "eth0 10.0.7.5/24", "eth0 0.0.0.0/0 via 10.0.7.1 1026",
			"nameserver 10.0.7.1\n", []string{"eth0 lost its lease of 10.0.0.5/24.", "eth0 has the address 10.0.7.5/24 by DHCP, gateway 10.0.7.1."}},
		{"expired", nil, "", "", "", []string{"eth0 lost its lease of 10.0.7.5/24."}},
		{"expired again", nil, "", "", "", nil},
		{"granted without a router", grant("169.254.3.4/16", ""), "eth0 169.254.3.4/16", "", "",
			[]string{"eth0 has the address 169.254.3.4/16 by DHCP, no gateway."}},
	} {
		w.dhcp["eth0"].granted(c.lease)
		w.step()
		w.want(c.name+": addresses", w.addresses(), c.addresses)
		w.want(c.name+": routes", w.routes(), c.routes)
		w.want(c.name+": resolv.conf", w.resolvers(), c.resolvConf)
		w.heard(c.said...)
	}
}

// TestConfigBeatsLease checks that what the config names stays as it is.
func TestConfigBeatsLease(t *testing.T) {
	w := newWiring(t, parse(t, `{interfaces: [{name: eth0, mtu: 1400, dhcp4: true}], nameservers: [9.9.9.9], search: [lan]}`))
	w.links.Add(hal.Link{Name: "eth0", Wired: true})
	w.links.Add(hal.Link{Name: "eth1", Wired: true})
	w.step()
	for _, link := range []string{"eth0", "eth1"} {
		l := grant("10.0.0.5/24", "", "10.0.0.1")
		l.mtu, l.search = 1300, []string{"of.server"}
		w.dhcp[link].granted(l)
	}
	w.step()
	w.want("resolv.conf", w.resolvers(), "nameserver 9.9.9.9\nsearch lan\n")
	for _, r := range w.out.list(resource.LinkStatusKind) {
		l := r.(resource.LinkStatus)
		if want := map[string]uint32{loopback: 65536, "eth0": 1400, "eth1": 1300}[l.Name]; l.MTU != want {
			t.Errorf("%s has MTU %d; want %d", l.Name, l.MTU, want)
		}
	}
}

// TestLeaseIsTriedAgain tells of a lease that could not be applied for a
// moment: it was forgotten, and the node had no address until it was due for
// renewal, half a day later.
func TestLeaseIsTriedAgain(t *testing.T) {
	for _, method := range []string{"Addresses", "AddAddress", "AddRoute", "Routes"} {
		t.Run(method, func(t *testing.T) {
			w := newWiring(t, config.Network{})
			w.links.Add(hal.Link{Name: "eth0", Wired: true})
			w.step()
			w.dhcp["eth0"].granted(grant("10.0.0.5/24", "10.0.0.1"))
			w.links.Fail(method, 1, errors.New("not now"))
			w.step()
			if len(w.troubles) == 0 {
				t.Error("the network is content after a failure; want the loop to come back soon")
			}
			w.step()
			w.want("addresses", w.addresses(), "eth0 10.0.0.5/24")
			w.want("routes", w.routes(), "eth0 0.0.0.0/0 via 10.0.0.1 1026")
			w.step()
			if len(w.troubles) != 0 {
				t.Errorf("troubles are %v; want none any more", w.troubles)
			}
		})
	}
	t.Run("unless there is a newer one", func(t *testing.T) {
		w := newWiring(t, config.Network{})
		w.links.Add(hal.Link{Name: "eth0", Wired: true})
		w.step()
		w.links.Fail("AddAddress", 1, errors.New("not now"))
		w.dhcp["eth0"].granted(grant("10.0.0.5/24", "10.0.0.1"))
		w.step()
		w.dhcp["eth0"].granted(grant("10.0.0.6/24", "10.0.0.1"))
		w.step()
		w.want("addresses", w.addresses(), "eth0 10.0.0.6/24")
	})
	t.Run("to take an address away", func(t *testing.T) {
		w := newWiring(t, config.Network{})
		w.links.Add(hal.Link{Name: "eth0", Wired: true})
		w.step()
		w.dhcp["eth0"].granted(grant("10.0.0.5/24", "10.0.0.1"))
		w.step()
		w.links.Fail("RemoveAddress", 1, errors.New("not now"))
		w.dhcp["eth0"].granted(nil)
		w.step()
		w.step()
		w.want("addresses", w.addresses(), "")
	})
}

// TestTroubleIsSaidOnce checks that a trouble is said once, again when it comes
// back, and that the loop is not kept busy when it is over.
func TestTroubleIsSaidOnce(t *testing.T) {
	w := newWiring(t, config.Network{})
	w.links.FailAlways("SetUp", errors.New("no firmware"))
	eth0 := w.links.Add(hal.Link{Name: "eth0", Wired: true})
	for range 3 {
		w.step()
	}
	w.heard("no firmware; trying again.", "no firmware; trying again.") // lo and eth0
	w.links.Heal("SetUp")
	w.step()
	w.heard("eth0 is up.")

	for range 3 {
		w.dhcp["eth0"].failed(errors.New("no server"))
		w.step()
	}
	w.heard("no server; trying again.")
	w.dhcp["eth0"].granted(grant("10.0.0.5/24", ""))
	w.step()
	if len(w.troubles) != 0 {
		t.Errorf("troubles are %v with a lease; want none", w.troubles)
	}
	w.said = nil
	w.dhcp["eth0"].failed(errors.New("no server"))
	w.step()
	w.heard("no server; trying again.")

	w.links.Fail("List", 1, errors.New("netlink is full"))
	w.step()
	w.heard("netlink is full; trying again.")
	w.links.Remove(eth0)
	w.step()
	w.heard("eth0 is gone.")
	if len(w.troubles) != 0 {
		t.Errorf("troubles are %v without the link; want none", w.troubles)
	}
}

// TestResolverIsKept tells of services that found no name for a moment: the
// slot's program emptied what the resident start had written by its lease.
func TestResolverIsKept(t *testing.T) {
	w := newWiring(t, config.Network{})
	write(t, w.resolvConf, "nameserver 10.0.0.1\n")
	w.links.Add(hal.Link{Name: "eth0", Wired: true})
	w.step()
	w.want("resolv.conf", w.resolvers(), "nameserver 10.0.0.1\n")
	w.dhcp["eth0"].granted(grant("10.0.0.5/24", "10.0.0.1", "10.0.0.2"))
	w.step()
	w.want("resolv.conf", w.resolvers(), "nameserver 10.0.0.2\n")
}

// TestResolverIsTriedAgain checks that a file that cannot be written is.
func TestResolverIsTriedAgain(t *testing.T) {
	w := newWiring(t, parse(t, `{nameservers: [9.9.9.9]}`))
	write(t, filepath.Dir(w.resolvConf), "in the way")
	w.step()
	if len(w.troubles) != 1 || len(w.said) != 1 {
		t.Errorf("troubles are %v, said %q; want one", w.troubles, w.said)
	}
	mustDo(t, os.Remove(filepath.Dir(w.resolvConf)))
	w.step()
	w.want("resolv.conf", w.resolvers(), "nameserver 9.9.9.9\n")
	if len(w.troubles) != 0 {
		t.Errorf("troubles are %v; want none", w.troubles)
	}
}
