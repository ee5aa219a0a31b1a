package roottest

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"machined/hal"
	"machined/hal/conformance"
	"machined/hal/linux"
	"machined/reconcile/network"
	"machined/reconcile/resource"
	"machined/tools/netlab"
	"machined/tools/testenv"
)

const nodeMAC = "02:00:00:00:00:77"

func TestDHCPConformance(t *testing.T) {
	testenv.NeedRoot(t, "dnsmasq", "ip", "nsenter")
	conformance.DHCP(t, func(t *testing.T) conformance.DHCPRig {
		p := newPeer(t, "10.77.0.1/24")
		p.dnsmasq("--dhcp-range=10.77.0.100,10.77.0.150,255.255.255.0,2m", "--dhcp-option=option:dns-server,10.77.0.1")
		p.plug("eth7", nodeMAC)
		netlab.Run(t, "ip", "link", "set", "eth7", "up")
		links, err := linux.NewLinks()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { links.Close() })
		return conformance.DHCPRig{
			Client: linux.NewDHCP(nil), Link: index(t, links, "eth7"), Absent: 1 << 30,
			ClientID: []byte{1, 2, 0, 0, 0, 0, 0x77},
			Pass:     func() { time.Sleep(50 * time.Millisecond) },
			Use: func(a hal.Prefix) {
				if err := links.AddAddress(index(t, links, "eth7"), a); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

func index(t *testing.T, links *linux.Links, name string) uint32 {
	t.Helper()
	all, err := links.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		if l.Name == name {
			return l.Index
		}
	}
	t.Fatalf("there is no link %s", name)
	return 0
}

// TestEverythingThatDHCPSays takes a lease with all the options that a node
// heeds, and checks it in the kernel, with ip(8).
func TestEverythingThatDHCPSays(t *testing.T) {
	testenv.NeedRoot(t, "dnsmasq", "ip", "nsenter")
	p := newPeer(t, "10.77.0.1/24")
	d := p.dnsmasq(
		"--dhcp-range=10.77.0.100,10.77.0.150,255.255.255.0,2m", "--dhcp-host="+nodeMAC+",10.77.0.42,kitchen",
		"--dhcp-option=option:dns-server,10.77.0.1,10.77.0.2", "--domain=lan.example", "--dhcp-option=option:domain-search,lan.example,example.org",
		"--dhcp-option=option:ntp-server,10.77.0.1", "--dhcp-option=option:mtu,1400",
		"--dhcp-option=option:classless-static-route,0.0.0.0/0,10.77.0.1,10.99.0.0/16,10.77.0.3",
		"--dhcp-option=option:router,10.77.0.9", // does not count beside option 121
	)
	p.plug("eth7", nodeMAC)
	n := startNode(t, newRoot(t), network.Settings{})
	l := n.bound("eth7")
	if l.Address.String() != "10.77.0.42/24" || l.Hostname != "kitchen" || l.MTU != 1400 || l.TimeServers != "10.77.0.1" {
		t.Errorf("the lease is %+v", l)
	}
	eventually(t, "routes", func() bool {
		return hasRoute("-4", "eth7", "default via 10.77.0.1") && hasRoute("-4", "eth7", "10.99.0.0/16 via 10.77.0.3")
	})
	if out := show("-4", "route", "show"); strings.Contains(out, "10.77.0.9") {
		t.Errorf("option 3 counts beside option 121:\n%s", out)
	}
	eventually(t, "MTU", func() bool { return strings.Contains(show("link", "show", "eth7"), " mtu 1400 ") })
	eventually(t, "the lease's host name", func() bool { name, err := os.Hostname(); return name == "kitchen" && err == nil })
	eventually(t, "the resolver's file", func() bool {
		return n.file(resolvConf) == "nameserver 10.77.0.1\nnameserver 10.77.0.2\nsearch lan.example example.org\n"
	})
	if got, want := d.talk(), []string{"DISCOVER", "OFFER", "REQUEST", "ACK"}; !slices.Equal(got, want) {
		t.Errorf("dnsmasq's log has %q; want %q", got, want)
	}
	if !slices.ContainsFunc(d.lines(), func(l string) bool { return strings.Contains(l, "client provides name: node") }) {
		t.Error("the server was not told the client's name")
	}
	n.expectNoFailures()
	n.expectRest(t)
	driftIsRepaired(t)
	n.expectNoFailures()

	n.configure(network.Settings{Interfaces: []network.Interface{{Name: "eth7", Up: true, Addresses: []hal.Prefix{prefix("10.77.0.42/24")}}}})
	eventually(t, "release at the server", func() bool { return slices.Contains(d.talk(), "RELEASE") })
	eventually(t, "driver's MTU", func() bool { return strings.Contains(show("link", "show", "eth7"), " mtu 1500 ") })
	eventually(t, "the address of the config in the lease's place", func() bool {
		return hasAddress("eth7", prefix("10.77.0.42/24")) && !hasRoute("-4", "eth7", "default") && len(n.failures()) == 0
	})
}

// expectRest measures how often the loop wakes on a node that has nothing to do.
func (n *node) expectRest(t *testing.T) {
	t.Helper()
	const window = 6 * time.Second
	time.Sleep(2 * time.Second) // what is on its way
	passes := n.passes.Load()
	time.Sleep(window)
	got := n.passes.Load() - passes
	t.Logf("%d passes in %v at rest", got, window)
	if got > 4*uint64(window/time.Second) {
		t.Errorf("%d passes in %v at rest; want four a second at most", got, window)
	}
}

// driftIsRepaired undoes what the node did, and expects it back; what others do
// stays.
func driftIsRepaired(t *testing.T) {
	t.Helper()
	netlab.Run(t, "ip", "addr", "add", "10.77.0.222/24", "dev", "eth7")
	netlab.Run(t, "ip", "route", "add", "10.50.0.0/16", "via", "10.77.0.5", "dev", "eth7")
	for name, undo := range map[string][]string{
		"address":         {"ip", "addr", "del", "10.77.0.42/24", "dev", "eth7"},
		"route":           {"ip", "route", "del", "10.99.0.0/16"},
		"default route":   {"ip", "route", "del", "default"},
		"link and routes": {"ip", "link", "set", "eth7", "down"},
		"MTU":             {"ip", "link", "set", "eth7", "mtu", "1500"},
	} {
		netlab.Run(t, undo...)
		if name == "link and routes" {
			netlab.Run(t, "sh", "-c", "ip route add 10.50.0.0/16 via 10.77.0.5 dev eth7 2>/dev/null || true")
		}
		if took := eventually(t, "repair of "+name, func() bool {
			link := show("link", "show", "eth7")
			return hasAddress("eth7", prefix("10.77.0.42/24")) && hasRoute("-4", "eth7", "default via 10.77.0.1") &&
				hasRoute("-4", "eth7", "10.99.0.0/16 via 10.77.0.3") && strings.Contains(link, ",UP") && strings.Contains(link, " mtu 1400 ")
		}); took > 2*time.Second {
			t.Logf("repair of %s took %v; the goal is 2 s", name, took)
		}
	}
	if !hasAddress("eth7", prefix("10.77.0.222/24")) {
		t.Errorf("an address of somebody else is gone:\n%s", show("addr", "show", "dev", "eth7"))
	}
	netlab.Run(t, "ip", "route", "replace", "10.50.0.0/16", "via", "10.77.0.5", "dev", "eth7")
	netlab.Run(t, "ip", "addr", "del", "10.77.0.222/24", "dev", "eth7")
}

func TestRenewalIsUnicast(t *testing.T) {
	testenv.NeedRoot(t, "dnsmasq", "ip", "nsenter")
	p := newPeer(t, "10.77.0.1/24")
	d := p.dnsmasq("--dhcp-range=10.77.0.100,10.77.0.150,255.255.255.0,2m", "--dhcp-option=option:T1,6", "--dhcp-option=option:T2,90")
	p.plug("eth7", nodeMAC)
	n := startNode(t, newRoot(t), network.Settings{})
	first := n.bound("eth7")
	eventually(t, "renewal in the server's log", func() bool { return len(d.talk()) >= 6 })
	if got, want := d.talk()[:6], []string{"DISCOVER", "OFFER", "REQUEST", "ACK", "REQUEST", "ACK"}; !slices.Equal(got, want) {
		t.Errorf("dnsmasq's log has %q; want %q", got, want)
	}
	eventually(t, "longer lease", func() bool {
		l := n.lease("eth7")
		return l.State == "BOUND" && l.ExpiresNS > first.ExpiresNS
	})
	n.expectNoFailures()
	if l := n.lease("eth7"); l.Address != first.Address {
		t.Errorf("the renewed lease is of %v; want %v", l.Address, first.Address)
	}
}

// TestReboot: after one, the node asks for its address at once. The server that
// has another range by then refuses it.
func TestReboot(t *testing.T) {
	testenv.NeedRoot(t, "dnsmasq", "ip", "nsenter")
	p := newPeer(t, "10.77.0.1/24")
	d := p.dnsmasq("--dhcp-range=10.77.0.100,10.77.0.150,255.255.255.0,2m")
	p.plug("eth7", nodeMAC)
	n := startNode(t, newRoot(t), network.Settings{})
	first := n.bound("eth7")
	eventually(t, "address on the card", func() bool { return strings.Contains(n.file(keepDir+"/eth7"), first.Address.String()) })

	// The program alone: the lease goes on without a message.
	n.end()
	before := len(d.talk())
	n = startNode(t, n.root, network.Settings{})
	n.bound("eth7")
	time.Sleep(500 * time.Millisecond)
	if got := d.talk()[before:]; len(got) != 0 {
		t.Errorf("after a new start of the program dnsmasq's log has %q; want nothing", got)
	}

	before = len(d.talk())
	n = n.reboot("eth7")
	if l := n.bound("eth7"); l.Address != first.Address {
		t.Errorf("after a reboot the address is %v; want %v", l.Address, first.Address)
	}
	if got, want := d.talk()[before:], []string{"REQUEST", "ACK"}; !slices.Equal(got, want) {
		t.Errorf("after a reboot dnsmasq's log has %q; want %q", got, want)
	}

	n.end()
	d.stop()
	p.run("ip", "addr", "add", "10.78.0.1/24", "dev", "srv0")
	p.run("ip", "addr", "del", "10.77.0.1/24", "dev", "srv0")
	d = p.dnsmasq("--dhcp-range=10.78.0.100,10.78.0.150,255.255.255.0,2m")
	n = n.reboot("eth7")
	eventually(t, "lease of the new range", func() bool { return strings.HasPrefix(n.lease("eth7").Address.String(), "10.78.0.") })
	if got, want := d.talk(), []string{"REQUEST", "NAK", "DISCOVER", "OFFER", "REQUEST", "ACK"}; !slices.Equal(got, want) {
		t.Errorf("in another network dnsmasq's log has %q; want %q", got, want)
	}
	if hasAddress("eth7", first.Address) {
		t.Errorf("the old address is still there:\n%s", show("addr", "show", "dev", "eth7"))
	}
	n.expectNoFailures()
}

// TestCableAndAdapter: the carrier goes and comes, then the link itself does.
func TestCableAndAdapter(t *testing.T) {
	testenv.NeedRoot(t, "dnsmasq", "ip", "nsenter")
	p := newPeer(t, "10.77.0.1/24")
	d := p.dnsmasq("--dhcp-range=10.77.0.100,10.77.0.150,255.255.255.0,2m")
	n := startNode(t, newRoot(t), network.Settings{})
	time.Sleep(300 * time.Millisecond)
	p.plug("eth7", nodeMAC) // late
	first := n.bound("eth7")

	before := len(d.talk())
	p.carrier(false)
	eventually(t, "no carrier in the status", func() bool { return !n.link("eth7").Carrier })
	p.carrier(true)
	eventually(t, "request after the carrier came back", func() bool { return len(d.talk()) >= before+2 })
	n.bound("eth7")
	if got, want := d.talk()[before:], []string{"REQUEST", "ACK"}; !slices.Equal(got, want) {
		t.Errorf("after the carrier came back dnsmasq's log has %q; want %q", got, want)
	}

	for range 2 {
		p.unplug()
		eventually(t, "link gone from the status", func() bool { return n.link("eth7").Index == 0 && n.lease("eth7").State == "" })
		p.plug("eth7", nodeMAC)
		if l := n.bound("eth7"); l.Address != first.Address {
			t.Errorf("after the link came back the address is %v; want %v", l.Address, first.Address)
		}
	}
	n.expectNoFailures()
}

// TestTwoCables tells of a node with two cables whose first one was pulled: its lease
// lasts, and all answers went on leaving by it.
func TestTwoCables(t *testing.T) {
	testenv.NeedRoot(t, "dnsmasq", "ip", "nsenter")
	first, second := newPeer(t, "10.77.0.1/24"), newPeer(t, "10.77.0.1/24")
	for _, p := range []*peer{first, second} {
		p.dnsmasq("--dhcp-range=10.77.0.100,10.77.0.150,255.255.255.0,2m")
	}
	first.plug("eth7", nodeMAC)
	second.plug("eth8", "02:00:00:00:00:78")
	n := startNode(t, newRoot(t), network.Settings{})
	n.bound("eth7")
	n.bound("eth8")
	way := func() string { return netlab.Run(t, "ip", "route", "get", "198.51.100.1") }
	eventually(t, "way by the first cable", func() bool { return strings.Contains(way(), "dev eth7") })
	first.carrier(false)
	eventually(t, "way by the second cable", func() bool { return strings.Contains(way(), "dev eth8") })
	first.carrier(true)
	eventually(t, "way by the first cable again", func() bool { return strings.Contains(way(), "dev eth7") })
	n.expectNoFailures()
}

func (n *node) link(name string) resource.LinkStatus {
	for _, c := range n.store.Snapshot(resource.LinkStatusKind) {
		if l := c.Resource.(resource.LinkStatus); l.Name == name {
			return l
		}
	}
	return resource.LinkStatus{}
}
