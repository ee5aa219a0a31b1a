package roottest

import (
	"net/netip"
	"strings"
	"testing"

	"machined/hal"
	"machined/hal/linux"
	"machined/reconcile/network"
	"machined/tools/netlab"
	"machined/tools/testenv"
)

func prefix(text string) hal.Prefix { return linux.PrefixFrom(netip.MustParsePrefix(text)) }

func address(text string) hal.Address { return linux.AddressFrom(netip.MustParseAddr(text)) }

// TestRouterAdvertisement: a wired link that no config names takes an address
// and the default route from a router, even on a node that forwards.
func TestRouterAdvertisement(t *testing.T) {
	testenv.NeedRoot(t, "dnsmasq", "ip", "nsenter")
	host := linux.Host{ProcSys: "/proc/sys"}
	if err := host.SetSysctl("net.ipv6.conf.all.forwarding", "1"); err != nil {
		t.Fatal(err)
	}
	p := newPeer(t, "fd07:77::1/64")
	p.dnsmasq("--enable-ra", "--dhcp-range=fd07:77::,ra-only,64,10m", "--ra-param=srv0,5,600")
	p.plug("eth7", nodeMAC)
	n := startNode(t, newRoot(t), network.Settings{})
	eventually(t, "address by SLAAC", func() bool {
		return strings.Contains(show("-6", "-o", "addr", "show", "dev", "eth7"), " fd07:77::ff:fe00:77/64 ")
	})
	eventually(t, "default route of the router", func() bool {
		return strings.Contains(show("-6", "route", "show", "dev", "eth7"), "default via fe80::")
	})
	_ = host.SetSysctl("net.ipv6.conf.all.forwarding", "0")

	// A config that does not ask for it does not get it.
	n.end()
	p.unplug()
	n = startNode(t, newRoot(t), network.Settings{Interfaces: []network.Interface{{Name: "eth7", Up: true}}})
	p.plug("eth7", nodeMAC)
	eventually(t, "link up", func() bool { return n.link("eth7").Carrier })
	if got, err := host.Sysctl("net/ipv6/conf/eth7/accept_ra"); got != "0" || err != nil {
		t.Errorf("accept_ra = %q, %v of a link that is not to have it; want 0", got, err)
	}
}

// TestStaticIPv6 checks a config without DHCP, with both families.
func TestStatic(t *testing.T) {
	testenv.NeedRoot(t, "ip", "nsenter")
	p := newPeer(t, "10.77.0.1/24", "fd07:77::1/64")
	settings := network.Settings{Hostname: "static", Nameservers: "10.77.0.1", Search: "lan", Interfaces: []network.Interface{{
		Name: "eth7", Up: true, MTU: 1420, Addresses: []hal.Prefix{prefix("10.77.0.5/24"), prefix("fd07:77::5/64")},
		Routes: []network.Route{
			{Destination: prefix("0.0.0.0/0"), Gateway: address("10.77.0.1")},
			{Destination: prefix("::/0"), Gateway: address("fd07:77::1"), Metric: 77},
			{Destination: prefix("fd99::/16"), Gateway: address("fd07:77::1")},
			{Destination: prefix("10.99.0.0/16"), Metric: 9},
		},
	}}}
	n := startNode(t, newRoot(t), settings)
	p.plug("eth7", nodeMAC)
	complete := func() bool {
		return hasAddress("eth7", prefix("10.77.0.5/24")) && hasAddress("eth7", prefix("fd07:77::5/64")) &&
			hasRoute("-4", "eth7", "default via 10.77.0.1") && hasRoute("-4", "eth7", "10.99.0.0/16") &&
			hasRoute("-6", "eth7", "default via fd07:77::1") && hasRoute("-6", "eth7", "fd99::/16 via fd07:77::1") &&
			strings.Contains(show("link", "show", "eth7"), " mtu 1420 ")
	}
	eventually(t, "all of the config", complete)
	for name, undo := range map[string][]string{
		"IPv6 address":  {"ip", "addr", "del", "fd07:77::5/64", "dev", "eth7"},
		"IPv6 route":    {"ip", "-6", "route", "del", "fd99::/16"},
		"last address":  {"ip", "addr", "del", "10.77.0.5/24", "dev", "eth7"}, // and all IPv4 routes
		"link, lowered": {"ip", "link", "set", "eth7", "down"},                // and all of IPv6
	} {
		netlab.Run(t, undo...)
		eventually(t, "repair of "+name, complete)
	}
	netlab.Run(t, "ip", "addr", "add", "fd07:77::99/64", "dev", "eth7")
	netlab.Run(t, "ip", "-6", "route", "add", "fd98::/16", "via", "fd07:77::1", "dev", "eth7")
	settings.Interfaces[0].Addresses = settings.Interfaces[0].Addresses[:1:1]
	settings.Interfaces[0].Routes = settings.Interfaces[0].Routes[:1:1]
	n.configure(settings)
	eventually(t, "end of what is not wanted any more", func() bool {
		return !hasAddress("eth7", prefix("fd07:77::5/64")) && !hasRoute("-6", "eth7", "default") && !hasRoute("-6", "eth7", "fd99::/16") &&
			!hasRoute("-4", "eth7", "10.99.0.0/16") && hasRoute("-4", "eth7", "default via 10.77.0.1")
	})
	if !hasAddress("eth7", prefix("fd07:77::99/64")) || !hasRoute("-6", "eth7", "fd98::/16") {
		t.Errorf("what somebody else set is gone:\n%s%s", show("addr", "show", "dev", "eth7"), show("-6", "route"))
	}
	eventually(t, "no failures", func() bool { return len(n.failures()) == 0 })
}
