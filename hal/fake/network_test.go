package fake_test

import (
	"testing"

	"machined/hal"
	"machined/hal/conformance"
	"machined/hal/fake"
)

func addr(a, b, c, d byte) hal.Address { return hal.Address{Bytes: [16]byte{a, b, c, d}, Len: 4} }

func newServer() *fake.DHCPServer {
	return &fake.DHCPServer{
		Address: addr(10, 7, 0, 1), First: hal.Prefix{Address: addr(10, 7, 0, 100), Bits: 24}, Size: 2, Authoritative: true,
		Options: hal.DHCPMessage{
			Lease: 120, Routes: []hal.DHCPRoute{{Destination: hal.Prefix{Address: hal.Address{Len: 4}}, Gateway: addr(10, 7, 0, 1)}},
			Nameservers: []hal.Address{addr(10, 7, 0, 1)},
		},
	}
}

func TestDHCP(t *testing.T) {
	conformance.DHCP(t, func(*testing.T) conformance.DHCPRig {
		clock, links := fake.NewClock(y2026), &fake.Links{}
		d, s := fake.NewDHCP(clock), newServer()
		d.Links, s.Delay = links, 10e6
		d.Join(s)
		eth0, absent := links.Add(hal.Link{Name: "eth0", Carrier: true}), links.Add(hal.Link{Name: "eth1"})
		links.Remove(absent)
		if err := links.SetUp(eth0, true); err != nil {
			t.Fatal(err)
		}
		return conformance.DHCPRig{
			Client: d, Link: eth0, Absent: absent, ClientID: []byte("client"),
			Pass: func() { clock.Advance(100e6); d.Step() },
			Use: func(p hal.Prefix) {
				if err := links.AddAddress(eth0, p); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

// TestDHCPServer checks the simulated server's manners: its pool ends, leases
// expire, and what is released is free.
func TestDHCPServer(t *testing.T) {
	clock := fake.NewClock(y2026)
	d, s := fake.NewDHCP(clock), newServer()
	d.Join(s)
	if err := d.Open(1); err != nil {
		t.Fatal(err)
	}
	ask := func(m hal.DHCPMessage) *hal.DHCPMessage {
		t.Helper()
		m.Transaction = 7
		if err := d.Send(1, &m, hal.Address{}); err != nil {
			t.Fatal(err)
		}
		d.Step()
		return d.Receive(1)
	}
	lease := func(client string) hal.Address {
		t.Helper()
		offer := ask(hal.DHCPMessage{Type: hal.DHCPDiscover, ClientID: []byte(client)})
		if offer == nil {
			return hal.Address{}
		}
		ack := ask(hal.DHCPMessage{Type: hal.DHCPRequest, ClientID: []byte(client), Requested: offer.Address.Address, Server: offer.Server})
		if ack == nil || ack.Type != hal.DHCPAck {
			t.Fatalf("a request for what was offered is answered by %+v", ack)
		}
		return ack.Address.Address
	}
	for i, want := range []hal.Address{addr(10, 7, 0, 100), addr(10, 7, 0, 101), {}} {
		if got := lease(string(rune('a' + i))); got != want {
			t.Errorf("client %d gets %v; want %v", i, got, want)
		}
	}
	if n := s.Bound(clock.SinceBoot()); n != 2 {
		t.Errorf("%d leases hold; want 2", n)
	}
	ask(hal.DHCPMessage{Type: hal.DHCPRelease, ClientID: []byte("a"), ClientAddress: addr(10, 7, 0, 100)})
	if got := lease("c"); got != addr(10, 7, 0, 100) {
		t.Errorf("client c gets %v; want what was released", got)
	}
	clock.Advance(200e9)
	if n := s.Bound(clock.SinceBoot()); n != 0 {
		t.Errorf("%d leases hold after their end; want none", n)
	}
	if got := lease("d"); got.Len == 0 {
		t.Error("client d gets nothing; want what has expired")
	}
	d.Leave(s)
	if got := lease("e"); got.Len != 0 {
		t.Errorf("client e gets %v from no server", got)
	}
}

// TestDHCPQueue: many messages that nobody takes push the oldest out.
func TestDHCPQueue(t *testing.T) {
	d, s := fake.NewDHCP(fake.NewClock(y2026)), newServer()
	s.Duplicate = true
	d.Join(s)
	if err := d.Open(1); err != nil {
		t.Fatal(err)
	}
	for i := range uint32(20) {
		if err := d.Send(1, &hal.DHCPMessage{Type: hal.DHCPDiscover, Transaction: i + 1}, hal.Address{}); err != nil {
			t.Fatal(err)
		}
	}
	d.Step()
	var first, n uint32
	for m := d.Receive(1); m != nil; m = d.Receive(1) {
		if n++; n == 1 {
			first = m.Transaction
		}
	}
	if n != 16 || first != 13 || d.Received() != 40 {
		t.Errorf("%d messages wait, the first of transaction %d, of %d that came; want 16, 13, 40", n, first, d.Received())
	}
}

func TestNTP(t *testing.T) {
	clock := fake.NewClock(y2026)
	clock.Advance(60e9)
	n := fake.NewNTP(clock, y2026)
	n.Join(&fake.NTPServer{Name: "good"})
	n.Join(&fake.NTPServer{Name: "silent", Silent: true})
	n.Join(&fake.NTPServer{Name: "unready", Leap: 3})
	conformance.NTP(t, conformance.NTPRig{NTP: n, Good: "good", Silent: "silent", Unready: "unready", Clock: clock})

	clock.Drift(-5e9)
	n.Join(&fake.NTPServer{Name: "ahead", Offset: 2e9, Kiss: "RATE"})
	s, err := n.Query("ahead")
	if err != nil || s.Offset != 7e9 || s.Kiss != "RATE" || s.Stratum != 0 || n.Error() != -5e9 {
		t.Errorf("Query = %+v, %v with a clock off by %d", s, err, n.Error())
	}
}
