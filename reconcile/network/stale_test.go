package network

import (
	"errors"
	"testing"
	"time"

	"machined/hal"
)

// oneAddress is a config with one address on eth0.
func oneAddress(address string, mtu uint32) Settings {
	i := Interface{Name: "eth0", Up: true, MTU: mtu}
	if address != "" {
		i.Addresses = []hal.Prefix{p(address)}
	}
	return Settings{Interfaces: []Interface{i}}
}

// TestRestartWithoutALook: the program starts anew and cannot see the links yet,
// and meanwhile the config loses an address. It was let go of, as one of a link
// that is not there, and stayed in the kernel for good.
func TestRestartWithoutALook(t *testing.T) {
	r := newRig(t)
	r.links.Add(hal.Link{Name: Loopback, Loopback: true, Up: true, Carrier: true})
	r.links.Add(cable("eth0", 1))
	r.configure(oneAddress("10.7.0.2/24", 0))
	r.run(time.Second)
	r.expectAddresses("eth0", "10.7.0.2/24")

	r.restart()
	r.links.FailAlways("List", errors.New("input/output error"))
	r.configure(oneAddress("10.7.0.2/24", 0))
	r.run(5 * time.Second)
	r.configure(oneAddress("", 0))
	r.run(5 * time.Second)
	r.links.Heal("List")
	r.run(time.Minute)
	r.expectAddresses("eth0")
	r.expectNoFailures()
}

// TestMTUComesBackUnseen: an MTU was set and taken back while the links could
// not be seen. The store still had the first one, so that nothing was done, and
// then nobody remembered that there was something to do.
func TestMTUComesBackUnseen(t *testing.T) {
	r := newRig(t)
	r.links.Add(cable("eth0", 1))
	r.configure(oneAddress("10.7.0.2/24", 0))
	r.run(time.Second)
	r.links.FailAlways("List", errors.New("input/output error"))
	r.configure(oneAddress("10.7.0.2/24", 1280))
	r.run(0)
	r.configure(oneAddress("10.7.0.2/24", 0))
	r.run(0)
	r.links.Heal("List")
	r.run(time.Minute)
	if got := r.link("eth0").MTU; got != 1500 {
		t.Errorf("the MTU is %d; want the driver's 1500", got)
	}
}

// TestSysctlChangedBehind: nothing tells of that, so it is looked at.
func TestSysctlChangedBehind(t *testing.T) {
	r := newRig(t)
	const key = "net/ipv6/conf/eth0/accept_ra"
	r.host.AddSysctl(key, "1", nil)
	r.links.Add(cable("eth0", 1))
	r.run(time.Second)
	if err := r.host.SetSysctl(key, "0"); err != nil {
		t.Fatal(err)
	}
	r.run(namesEvery + time.Second)
	if got, err := r.host.Sysctl(key); got != "2" || err != nil {
		t.Errorf("%s = %s, %v; want it set to 2 again", key, got, err)
	}
}

// TestMTUsOfLinksThatAreGone: a card that comes and goes for a year must not
// leave something behind each time.
func TestMTUsOfLinksThatAreGone(t *testing.T) {
	r := newRig(t)
	a := &Apply{Links: r.links, Host: r.host, mtus: []driverMTU{{index: 7, mtu: 1500}, {index: 1, mtu: 1500}}}
	r.links.Add(cable("eth0", 1))
	r.run(time.Second)
	a.forget(r.store)
	if len(a.mtus) != 1 || a.mtus[0].index != 1 {
		t.Errorf("the MTUs %v are kept; want that of link 1", a.mtus)
	}
}
