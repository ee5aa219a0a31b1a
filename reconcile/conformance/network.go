package conformance

import (
	"slices"

	"machined/hal"
	"machined/hal/fake"
)

func linkCases() []Case {
	return []Case{
		{"links: one that is gone takes its routes along", linkGone},
		{"links: adding twice and removing nothing are no errors", linkTwice},
		{"links: another way to the same destination is refused", linkRoutes},
	}
}

func v4(a, b, c, d, bits byte) hal.Prefix {
	return hal.Prefix{Address: hal.Address{Bytes: [16]byte{a, b, c, d}, Len: 4}, Bits: bits}
}

// wired returns a driver with one Ethernet link, up and with an address.
func wired(t T) (*fake.Links, uint32) {
	l := &fake.Links{}
	eth0 := l.Add(hal.Link{Name: "eth0", Wired: true, MAC: [6]byte{2, 0, 0, 0, 0, 1}})
	expect(t, "SetUp", l.SetUp(eth0, true), nil)
	expect(t, "AddAddress", l.AddAddress(eth0, v4(10, 7, 0, 2, 24)), nil)
	return l, eth0
}

func linkGone(t T) {
	l, eth0 := wired(t)
	l.Remove(eth0)
	links, err := l.List()
	expect(t, "List", err, nil)
	sameNumber(t, "the number of links", len(links), 0)
	routes, err := l.Routes()
	expect(t, "Routes", err, nil)
	sameNumber(t, "the number of routes", len(routes), 0)
	expect(t, "SetUp", l.SetUp(eth0, true), hal.ErrNoDevice)
	expect(t, "SetMTU", l.SetMTU(eth0, 1400), hal.ErrNoDevice)
	expect(t, "AddAddress", l.AddAddress(eth0, v4(10, 7, 0, 2, 24)), hal.ErrNoDevice)
}

func linkTwice(t T) {
	l, eth0 := wired(t)
	address := v4(10, 8, 0, 2, 24)
	expect(t, "RemoveAddress of none", l.RemoveAddress(eth0, address), nil)
	for range 2 {
		expect(t, "AddAddress", l.AddAddress(eth0, address), nil)
	}
	addresses, err := l.Addresses(eth0)
	expect(t, "Addresses", err, nil)
	check(t, slices.Equal(addresses, []hal.Prefix{v4(10, 7, 0, 2, 24), address}), "each address is there once")
	expect(t, "RemoveAddress", l.RemoveAddress(eth0, address), nil)
	expect(t, "AddAddress of 33 bits", l.AddAddress(eth0, v4(10, 7, 0, 2, 33)), hal.ErrInvalid)
	expect(t, "SetMTU", l.SetMTU(eth0, 1400), nil)
	expect(t, "SetMTU of 67", l.SetMTU(eth0, 67), hal.ErrInvalid)
	links, _ := l.List()
	check(t, len(links) == 1 && links[0].MTU == 1400 && links[0].Up, "the link is up with the MTU that was taken")
}

func linkRoutes(t T) {
	l, eth0 := wired(t)
	route := hal.Route{Link: eth0, Destination: v4(0, 0, 0, 0, 0), Gateway: v4(10, 7, 0, 1, 0).Address, Metric: 1024}
	for range 2 {
		expect(t, "AddRoute", l.AddRoute(route), nil)
	}
	moved := route
	moved.Gateway = v4(10, 7, 0, 254, 0).Address
	expect(t, "AddRoute by another gateway", l.AddRoute(moved), hal.ErrExists)
	expect(t, "RemoveRoute of one that is not there", l.RemoveRoute(moved), nil)
	routes, err := l.Routes()
	expect(t, "Routes", err, nil)
	check(t, slices.Contains(routes, route), "a removal names one route, not its destination")
	expect(t, "RemoveRoute", l.RemoveRoute(route), nil)
	expect(t, "AddRoute by another gateway, the first removed", l.AddRoute(moved), nil)
	expect(t, "AddRoute with host bits", l.AddRoute(hal.Route{Link: eth0, Destination: v4(10, 9, 0, 1, 16)}), hal.ErrInvalid)
}
