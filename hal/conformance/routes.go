package conformance

import (
	"slices"
	"testing"

	"machined/hal"
)

func v4(a, b, c, d byte, bits uint8) hal.Prefix {
	return hal.Prefix{Address: hal.Address{Bytes: [16]byte{a, b, c, d}, Len: 4}, Bits: bits}
}

// v6 returns fd07::host/bits (RFC 4193).
func v6(host byte, bits uint8) hal.Prefix {
	return hal.Prefix{Address: hal.Address{Bytes: [16]byte{0: 0xfd, 1: 7, 15: host}, Len: 16}, Bits: bits}
}

func masked(p hal.Prefix) hal.Prefix {
	for bit := int(p.Bits); bit < 8*int(p.Address.Len); bit++ {
		p.Address.Bytes[bit/8] &^= 1 << (7 - bit%8)
	}
	return p
}

// defaultOf returns 0.0.0.0/0 or ::/0.
func defaultOf(p hal.Prefix) hal.Prefix {
	return hal.Prefix{Address: hal.Address{Len: p.Address.Len}}
}

func routesOf(t *testing.T, r LinksRig, index uint32) []hal.Route {
	t.Helper()
	routes, err := r.Links.Routes()
	must(t, "Routes()", err)
	return slices.DeleteFunc(routes, func(r hal.Route) bool { return r.Link != index })
}

func linkRoutes(t *testing.T, r LinksRig) {
	must(t, "SetUp", r.Links.SetUp(r.Link, true))
	for _, own := range []hal.Prefix{v4(10, 7, 0, 2, 24), v6(2, 64)} {
		must(t, "AddAddress", r.Links.AddAddress(r.Link, own))
		r.Settle()
		gateway := own.Address
		gateway.Bytes[gateway.Len-1] = 1
		far := own
		far.Address.Bytes[1] = 99
		for _, route := range []hal.Route{
			{Link: r.Link, Destination: defaultOf(own), Gateway: gateway, Metric: 100},
			{Link: r.Link, Destination: defaultOf(own), Gateway: gateway, Metric: 200},
			{Link: r.Link, Destination: masked(far), Gateway: gateway, Metric: 7},
			{Link: r.Link, Destination: masked(far), Metric: 8}, // to the link itself
		} {
			expect(t, "RemoveRoute of an absent one", r.Links.RemoveRoute(route), nil)
			expect(t, "AddRoute", r.Links.AddRoute(route), nil)
			expect(t, "AddRoute of an existing one", r.Links.AddRoute(route), nil)
			if got := routesOf(t, r, r.Link); count(got, route) != 1 {
				t.Errorf("Routes() = %+v; want %+v once among them", got, route)
			}
			expect(t, "RemoveRoute", r.Links.RemoveRoute(route), nil)
			if got := routesOf(t, r, r.Link); count(got, route) != 0 {
				t.Errorf("Routes() = %+v; want %+v to be gone", got, route)
			}
		}
		// Metric 0 leaves the choice to the kernel; adding twice is the same.
		plain := hal.Route{Link: r.Link, Destination: masked(far), Gateway: gateway}
		for range 2 {
			expect(t, "AddRoute without a metric", r.Links.AddRoute(plain), nil)
		}
		expect(t, "RemoveRoute without a metric", r.Links.RemoveRoute(plain), nil)
		if got := routesOf(t, r, r.Link); slices.ContainsFunc(got, func(r hal.Route) bool { return r.Destination == plain.Destination }) {
			t.Errorf("Routes() = %+v; want none to %v", got, plain.Destination)
		}
	}
}

func count(routes []hal.Route, want hal.Route) int {
	n := 0
	for _, r := range routes {
		if r == want {
			n++
		}
	}
	return n
}

// routeDiffers tells of a lease that came back with another gateway: the
// kernel answers EEXIST to the new default route, since destination and metric
// are taken. To call that "there already" left the node with the dead gateway.
func routeDiffers(t *testing.T, r LinksRig) {
	must(t, "SetUp", r.Links.SetUp(r.Link, true))
	must(t, "SetUp", r.Links.SetUp(r.Other, true))
	own, second := v4(10, 7, 0, 2, 24), v4(10, 8, 0, 2, 24)
	must(t, "AddAddress", r.Links.AddAddress(r.Link, own))
	must(t, "AddAddress", r.Links.AddAddress(r.Other, second))
	route := hal.Route{Link: r.Link, Destination: defaultOf(own), Gateway: v4(10, 7, 0, 1, 24).Address, Metric: 1024}
	must(t, "AddRoute", r.Links.AddRoute(route))

	moved := route
	moved.Gateway = v4(10, 7, 0, 254, 24).Address
	expect(t, "AddRoute with another gateway", r.Links.AddRoute(moved), hal.ErrExists)
	elsewhere := hal.Route{Link: r.Other, Destination: defaultOf(own), Gateway: v4(10, 8, 0, 1, 24).Address, Metric: 1024}
	expect(t, "AddRoute on another link", r.Links.AddRoute(elsewhere), hal.ErrExists)
	expect(t, "AddRoute of the one that is there", r.Links.AddRoute(route), nil)

	// A removal names one route, not whatever has its destination.
	expect(t, "RemoveRoute of one that is not there", r.Links.RemoveRoute(moved), nil)
	if got := routesOf(t, r, r.Link); count(got, route) != 1 {
		t.Errorf("Routes() = %+v; want %+v to be left", got, route)
	}
	expect(t, "RemoveRoute", r.Links.RemoveRoute(route), nil)
	expect(t, "AddRoute with another gateway, the first removed", r.Links.AddRoute(moved), nil)
}

// kernelRoute tells of "route removal did nothing": a route that the kernel
// made with an address has another protocol and scope than ours, so that a
// request which names ours removes nothing, and says nothing.
func kernelRoute(t *testing.T, r LinksRig) {
	must(t, "SetUp", r.Links.SetUp(r.Link, true))
	for _, own := range []hal.Prefix{v4(10, 7, 0, 2, 24), v6(2, 64)} {
		must(t, "AddAddress", r.Links.AddAddress(r.Link, own))
		r.Settle()
		made := slices.DeleteFunc(routesOf(t, r, r.Link), func(r hal.Route) bool { return r.Destination != masked(own) })
		if len(made) != 1 {
			t.Fatalf("Routes() has %+v to the network of %v; want one", made, own)
		}
		expect(t, "RemoveRoute", r.Links.RemoveRoute(made[0]), nil)
		if got := routesOf(t, r, r.Link); count(got, made[0]) != 0 {
			t.Errorf("Routes() = %+v; want %+v to be gone", got, made[0])
		}
	}
}

// linkRoute has a gateway in no network of the link, which a route of its own
// says is there: what servers on rented machines hand out.
func linkRoute(t *testing.T, r LinksRig) {
	must(t, "SetUp", r.Links.SetUp(r.Link, true))
	must(t, "AddAddress", r.Links.AddAddress(r.Link, v4(10, 7, 0, 2, 32)))
	gateway := v4(10, 255, 0, 1, 32)
	onward := hal.Route{Link: r.Link, Destination: defaultOf(gateway), Gateway: gateway.Address, Metric: 1024}
	if err := r.Links.AddRoute(onward); err == nil {
		t.Error("AddRoute by a gateway that is nowhere succeeds; want an error")
	}
	must(t, "AddRoute to the gateway", r.Links.AddRoute(hal.Route{Link: r.Link, Destination: gateway, Metric: 1024}))
	expect(t, "AddRoute by the gateway", r.Links.AddRoute(onward), nil)
}

// lastAddress checks what a link loses with an address: that of another network
// takes none of the routes along, and the last one of IPv4 takes all.
func lastAddress(t *testing.T, r LinksRig) {
	must(t, "SetUp", r.Links.SetUp(r.Link, true))
	first, second := v4(10, 7, 0, 2, 24), v4(10, 8, 0, 2, 24)
	must(t, "AddAddress", r.Links.AddAddress(r.Link, first))
	must(t, "AddAddress", r.Links.AddAddress(r.Link, second))
	routes := []hal.Route{
		{Link: r.Link, Destination: defaultOf(first), Gateway: v4(10, 7, 0, 1, 24).Address, Metric: 1024},
		{Link: r.Link, Destination: v4(10, 99, 0, 0, 16), Metric: 7},
	}
	for _, route := range routes {
		must(t, "AddRoute", r.Links.AddRoute(route))
	}
	must(t, "RemoveAddress", r.Links.RemoveAddress(r.Link, first))
	for _, route := range routes {
		if got := routesOf(t, r, r.Link); count(got, route) != 1 {
			t.Errorf("with an address of the link left Routes() = %+v; want %+v among them", got, route)
		}
	}
	must(t, "RemoveAddress", r.Links.RemoveAddress(r.Link, second))
	if got := slices.DeleteFunc(routesOf(t, r, r.Link), func(r hal.Route) bool { return r.Destination.Address.Len != 4 }); len(got) != 0 {
		t.Errorf("without an address of the link Routes() = %+v; want none of IPv4", got)
	}
}
