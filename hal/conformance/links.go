package conformance

import (
	"slices"
	"testing"

	"machined/hal"
)

// LinksRig is a driver and links that the suite may change.
type LinksRig struct {
	Links hal.Links
	// Link and Other are two wired links, in the order of their indices, that
	// are down and have neither addresses nor routes.
	Link, Other uint32
	// Remove makes Link disappear.
	Remove func()
	// Settle waits until what has been changed is visible, such as an IPv6
	// address whose duplicate detection runs.
	Settle func()
}

// Links checks a driver.
func Links(t *testing.T, newRig func(t *testing.T) LinksRig) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, LinksRig)
	}{
		{"list", linkList}, {"up and down", linkUp}, {"MTU", linkMTU}, {"gone link", linkGone}, {"changes", linkChanges},
		{"addresses", linkAddresses}, {"routes", linkRoutes}, {"route that differs", routeDiffers},
		{"route of the kernel", kernelRoute}, {"route by a link's route", linkRoute}, {"last address", lastAddress},
		{"bad values", linkBad},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, newRig(t)) })
	}
}

func linkList(t *testing.T, r LinksRig) {
	links, err := r.Links.List()
	must(t, "List()", err)
	if !slices.IsSortedFunc(links, func(a, b hal.Link) int { return int(a.Index) - int(b.Index) }) {
		t.Errorf("List() = %+v; want it by index", links)
	}
	for _, index := range []uint32{r.Link, r.Other} {
		l := get(t, r, index)
		if l.Name == "" || l.Up || l.Loopback || !l.Wired || l.MTU < 68 || l.MAC == [6]byte{} {
			t.Errorf("List() has %+v; want a wired link that is down, with name, MTU and MAC", l)
		}
	}
}

// get returns the link of that index, or a zero one when it is not listed.
func get(t *testing.T, r LinksRig, index uint32) hal.Link {
	t.Helper()
	links, err := r.Links.List()
	must(t, "List()", err)
	for _, l := range links {
		if l.Index == index {
			return l
		}
	}
	return hal.Link{}
}

func linkUp(t *testing.T, r LinksRig) {
	for _, up := range []bool{true, true, false, false} {
		expect(t, "SetUp", r.Links.SetUp(r.Link, up), nil)
		if l := get(t, r, r.Link); l.Up != up {
			t.Errorf("after SetUp(%v) the link has Up=%v", up, l.Up)
		}
	}
}

func linkMTU(t *testing.T, r LinksRig) {
	for _, mtu := range []uint32{1400, 1400, 1500} {
		expect(t, "SetMTU", r.Links.SetMTU(r.Link, mtu), nil)
		if l := get(t, r, r.Link); l.MTU != mtu {
			t.Errorf("after SetMTU(%d) the link has MTU %d", mtu, l.MTU)
		}
	}
	for _, mtu := range []uint32{0, 1, 67, 65536, 1<<32 - 1} {
		expect(t, "SetMTU with a bad value", r.Links.SetMTU(r.Link, mtu), hal.ErrInvalid)
	}
	if l := get(t, r, r.Link); l.MTU != 1500 {
		t.Errorf("after refused MTUs the link has MTU %d; want 1500", l.MTU)
	}
}

func linkGone(t *testing.T, r LinksRig) {
	must(t, "SetUp", r.Links.SetUp(r.Link, true))
	must(t, "AddAddress", r.Links.AddAddress(r.Link, v4(10, 7, 0, 2, 24)))
	route := hal.Route{Link: r.Link, Destination: v4(10, 9, 0, 0, 16), Gateway: v4(10, 7, 0, 1, 24).Address}
	must(t, "AddRoute", r.Links.AddRoute(route))
	r.Remove()
	if l := get(t, r, r.Link); l.Name != "" {
		t.Errorf("List() has %+v, which was removed", l)
	}
	expect(t, "SetUp", r.Links.SetUp(r.Link, true), hal.ErrNoDevice)
	expect(t, "SetMTU", r.Links.SetMTU(r.Link, 1400), hal.ErrNoDevice)
	for _, a := range []hal.Prefix{v4(10, 7, 0, 2, 24), v6(2, 64)} {
		expect(t, "AddAddress", r.Links.AddAddress(r.Link, a), hal.ErrNoDevice)
		expect(t, "RemoveAddress", r.Links.RemoveAddress(r.Link, a), hal.ErrNoDevice)
		expect(t, "AddRoute", r.Links.AddRoute(hal.Route{Link: r.Link, Destination: masked(a)}), hal.ErrNoDevice)
	}
	expect(t, "RemoveRoute", r.Links.RemoveRoute(route), nil)
	if routes := routesOf(t, r, r.Link); len(routes) != 0 {
		t.Errorf("Routes() has %+v of a link that is gone", routes)
	}
}

func linkAddresses(t *testing.T, r LinksRig) {
	must(t, "SetUp", r.Links.SetUp(r.Link, true))
	for _, a := range []hal.Prefix{v4(10, 7, 0, 2, 24), v4(10, 7, 0, 3, 24), v4(10, 8, 0, 1, 31), v4(10, 8, 0, 9, 32), v6(2, 64), v6(3, 128)} {
		expect(t, "RemoveAddress of an absent one", r.Links.RemoveAddress(r.Link, a), nil)
		expect(t, "AddAddress", r.Links.AddAddress(r.Link, a), nil)
		r.Settle()
		expect(t, "AddAddress of an existing one", r.Links.AddAddress(r.Link, a), nil)
		if got := addresses(t, r, r.Link); !slices.Contains(got, a) {
			t.Errorf("Addresses() = %v; want %v among them", got, a)
		}
		if got := addresses(t, r, r.Other); slices.Contains(got, a) {
			t.Errorf("Addresses() of another link = %v; want %v not among them", got, a)
		}
		expect(t, "RemoveAddress", r.Links.RemoveAddress(r.Link, a), nil)
		if got := addresses(t, r, r.Link); slices.Contains(got, a) {
			t.Errorf("Addresses() = %v; want %v to be gone", got, a)
		}
	}
}

func addresses(t *testing.T, r LinksRig, index uint32) []hal.Prefix {
	t.Helper()
	got, err := r.Links.Addresses(index)
	must(t, "Addresses()", err)
	return got
}

func linkBad(t *testing.T, r LinksRig) {
	must(t, "SetUp", r.Links.SetUp(r.Link, true))
	for name, p := range map[string]hal.Prefix{
		"no address": {}, "33 bits": v4(10, 7, 0, 2, 33), "129 bits": v6(2, 129),
	} {
		expect(t, "AddAddress with "+name, r.Links.AddAddress(r.Link, p), hal.ErrInvalid)
		if p.Address.Len > 0 {
			expect(t, "AddRoute with "+name, r.Links.AddRoute(hal.Route{Link: r.Link, Destination: p}), hal.ErrInvalid)
		}
	}
	expect(t, "AddRoute with host bits", r.Links.AddRoute(hal.Route{Link: r.Link, Destination: v4(10, 9, 0, 1, 16)}), hal.ErrInvalid)
}

// linkChanges checks that a change is counted, by whoever it was made, and that
// looking is none.
func linkChanges(t *testing.T, r LinksRig) {
	moved := func(what string, change func() error) {
		t.Helper()
		r.Settle()
		before := r.Links.Changes()
		must(t, what, change())
		r.Settle()
		if r.Links.Changes() == before {
			t.Errorf("Changes() stays %d after %s", before, what)
		}
	}
	address := v4(10, 7, 0, 2, 24)
	moved("SetUp", func() error { return r.Links.SetUp(r.Link, true) })
	moved("AddAddress", func() error { return r.Links.AddAddress(r.Link, address) })
	moved("RemoveAddress", func() error { return r.Links.RemoveAddress(r.Link, address) })
	r.Settle()
	before := r.Links.Changes()
	_, err := r.Links.List()
	must(t, "List()", err)
	if got := r.Links.Changes(); got != before {
		t.Errorf("Changes() = %d after looking; want %d", got, before)
	}
}
