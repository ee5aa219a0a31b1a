package main

import (
	"slices"
	"testing"

	"machined/hal"
	"machined/hal/fake"
	"machined/init/config"
)

// TestLeaseMovesGateway tells of a router that was replaced: the lease came
// back with the same address and another gateway, the kernel refused the new
// default route for the sake of the old one, and the node stayed cut off until
// it was restarted. A second link's default route was refused in the same way.
func TestLeaseMovesGateway(t *testing.T) {
	var links fake.Links
	var out published
	n := newNetwork(&links, &out, config.Network{})
	n.say = t.Logf
	gateway := func(link, host byte) hal.Address { return hal.Address{Bytes: [16]byte{10, 7, link, host}, Len: 4} }
	first := links.Add(hal.Link{Name: "eth0", Wired: true, Up: true})
	second := links.Add(hal.Link{Name: "eth1", Wired: true, Up: true})
	for link, index := range map[byte]uint32{1: first, 2: second} {
		own := hal.Prefix{Address: gateway(link, 9), Bits: 24}
		if err := links.AddAddress(index, own); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		link uint32
		to   hal.Address
	}{
		{first, gateway(1, 1)}, {first, gateway(1, 1)}, {second, gateway(2, 1)}, {first, gateway(1, 254)},
	} {
		if err := n.setGateway(c.link, c.to); err != nil {
			t.Fatalf("setGateway(%d, %v) = %v; want success", c.link, c.to, err)
		}
	}
	routes, err := links.Routes()
	if err != nil {
		t.Fatal(err)
	}
	var got []hal.Address
	for _, r := range routes {
		if r.Destination.Bits == 0 {
			got = append(got, r.Gateway)
		}
	}
	if want := []hal.Address{gateway(2, 1), gateway(1, 254)}; !slices.Equal(got, want) {
		t.Errorf("default routes lead to %v; want %v", got, want)
	}
}
