package network

import (
	"strings"
	"testing"
	"time"

	"machined/hal"
	"machined/hal/fake"
)

// leased returns a node whose eth0 has a lease of an hour.
func leased(t *testing.T) (*rig, *fake.DHCPServer) {
	t.Helper()
	r, s := newRig(t), server()
	r.links.Add(hal.Link{Name: "lo", Loopback: true})
	r.links.Add(cable("eth0", 1))
	r.dhcp.Join(s)
	r.run(time.Second)
	r.expectState("eth0", "BOUND")
	r.expectSent("DISCOVER", "REQUEST for 192.168.7.100 of 192.168.7.1")
	return r, s
}

func TestLeaseOfADefaultLink(t *testing.T) {
	r, _ := leased(t)
	r.expectAddresses("eth0", "192.168.7.100/24")
	r.expectRoutes("eth0", "0.0.0.0/0 192.168.7.1 1026") // 1024 and the link's index
	l := r.lease("eth0")
	if l.Nameservers != "192.168.7.1" || l.TimeServers != "192.168.7.2" || l.Search != "lan" || l.Server != ip("192.168.7.1") {
		t.Errorf("the lease's status is %+v; want what the server gave", l)
	}
	if want := int64(time.Second + time.Hour); l.ExpiresNS != want {
		t.Errorf("the lease ends at %v; want %v", time.Duration(l.ExpiresNS), time.Duration(want))
	}
	r.expectNoFailures()
	r.expectRest(29 * time.Minute)
}

// TestWhatAClientSays checks the identity and the options of its messages.
func TestWhatAClientSays(t *testing.T) {
	r := newRig(t)
	r.links.Add(cable("eth0", 1))
	r.run(0)
	m := r.dhcp.Sent[0].Message
	if want := string([]byte{1, 2, 0, 0, 0, 0, 1}); string(m.ClientID) != want {
		t.Errorf("client id %x; want %x", m.ClientID, want)
	}
	for _, wanted := range []byte{1, 3, 6, 12, 15, 26, 42, 51, 54, 58, 59, 119, 121} {
		if !strings.Contains(string(m.Parameters), string([]byte{wanted})) {
			t.Errorf("the client does not ask for option %d", wanted)
		}
	}
	if m.Hostname != "node" || m.MaxSize != 1500 || m.Transaction == 0 || m.Broadcast {
		t.Errorf("the client says %+v", m)
	}
}

func TestRenewal(t *testing.T) {
	r, _ := leased(t)
	r.run(30 * time.Minute)
	r.expectState("eth0", "BOUND")
	r.expectSent("REQUEST from 192.168.7.100 to 192.168.7.1")
	if l := r.lease("eth0"); l.ExpiresNS < int64(89*time.Minute) {
		t.Errorf("after a renewal the lease ends at %v; want an hour from it", time.Duration(l.ExpiresNS))
	}
	r.expectAddresses("eth0", "192.168.7.100/24")
}

// TestRenewalWritesNothingOnTheCard: cards wear.
func TestRenewalWritesNothingOnTheCard(t *testing.T) {
	r, _ := leased(t)
	r.run(10 * time.Second)
	started := r.jobs.Started()
	r.run(5 * time.Hour)
	if got := r.jobs.Started(); got != started {
		t.Errorf("%d jobs in 10 renewals; want none", got-started)
	}
}

func TestRebindingAndExpiry(t *testing.T) {
	r, s := leased(t)
	s.Silent = true
	r.run(30*time.Minute + 30*time.Second)
	r.expectState("eth0", "RENEWING")
	r.run(23 * time.Minute)
	r.expectState("eth0", "REBINDING")
	r.expectAddresses("eth0", "192.168.7.100/24")
	sent := r.sent()
	if len(sent) < 4 || sent[0] != "REQUEST from 192.168.7.100 to 192.168.7.1" || sent[len(sent)-1] != "REQUEST from 192.168.7.100" {
		t.Errorf("the client sent %q; want requests to the server and then to all", sent)
	}
	if why := r.lease("eth0").Trouble; why == "" {
		t.Error("a lease that nobody extends has no trouble in its status")
	}
	r.run(8 * time.Minute)
	r.expectState("eth0", "SELECTING")
	r.expectAddresses("eth0")
	r.expectRoutes("eth0")
	if got := r.lease("eth0"); !strings.Contains(got.Trouble, "expired") && got.Trouble != "no DHCP server answers" || got.Address.Address.Len != 0 {
		t.Errorf("after the end of the lease the status is %+v", got)
	}
	// The old address is still asked for, and the server gives it.
	if sent = r.sent(); sent[len(sent)-1] != "DISCOVER for 192.168.7.100" {
		t.Errorf("the client sent %q; want a search with a wish", sent)
	}
	s.Silent = false
	r.run(2 * time.Minute)
	r.expectAddresses("eth0", "192.168.7.100/24")
	r.expectNoFailures()
}

// TestRequestsAreSpread counts what an unanswered client sends: RFC 2131, 4.4.5
// has it wait half of the rest, and a minute at least.
func TestRequestsAreSpread(t *testing.T) {
	r, s := leased(t)
	s.Silent = true
	r.run(59 * time.Minute)
	if n := len(r.sent()); n < 5 || n > 14 {
		t.Errorf("%d requests to extend a lease of an hour; want 5 to 14", n)
	}
	r.run(time.Hour)
	if n := len(r.sent()); n < 40 || n > 75 {
		t.Errorf("%d searches in an hour without a server; want about one a minute", n)
	}
}

func TestAnotherServerTakesOver(t *testing.T) {
	r, s := leased(t)
	r.dhcp.Leave(s)
	other := server()
	other.Address = ip("192.168.7.9")
	other.Authoritative = false
	r.dhcp.Join(other)
	r.run(54 * time.Minute) // past T2: it has no record, and says nothing
	r.expectState("eth0", "REBINDING")
	r.run(7 * time.Minute)
	r.expectState("eth0", "BOUND")
	if got := r.lease("eth0").Server; got != ip("192.168.7.9") {
		t.Errorf("the lease is of %v; want that of the new server", got)
	}
}

func TestRefusalWhileRenewing(t *testing.T) {
	r, s := leased(t)
	s.First, s.Size = p("192.168.7.200/24"), 9
	r.run(30*time.Minute + 5*time.Second)
	r.expectState("eth0", "BOUND")
	r.expectAddresses("eth0", "192.168.7.200/24")
	r.expectSent("REQUEST from 192.168.7.100 to 192.168.7.1", "DISCOVER", "REQUEST for 192.168.7.200 of 192.168.7.1")
}

// TestRefusalsSlowDown: a server that offers and then refuses must not make a
// storm.
func TestRefusalsSlowDown(t *testing.T) {
	r, s := newRig(t), server()
	s.Refuses = true
	r.links.Add(cable("eth0", 1))
	r.dhcp.Join(s)
	r.run(time.Hour)
	if n := len(r.sent()); n > 140 {
		t.Errorf("%d messages in an hour of refusals; want two a minute", n)
	}
	if got := r.lease("eth0").Trouble; got != "the DHCP server 192.168.7.1 refuses: refused" {
		t.Errorf("trouble %q; want the server's text", got)
	}
	s.Refuses = false
	r.run(2 * time.Minute)
	r.expectState("eth0", "BOUND")
}

func TestRebootAsksForTheLastAddress(t *testing.T) {
	r, s := leased(t)
	r.run(3 * time.Second)
	r.reboot(cable("eth0", 1))
	r.run(time.Second)
	r.expectState("eth0", "BOUND")
	r.expectSent("REQUEST for 192.168.7.100")
	r.expectAddresses("eth0", "192.168.7.100/24")

	// A server that lost its memory says nothing, and is asked from the start.
	s.Forget()
	s.Authoritative = false
	r.reboot(cable("eth0", 1))
	r.run(10 * time.Second)
	r.expectState("eth0", "BOUND")
	r.expectSent("REQUEST for 192.168.7.100", "REQUEST for 192.168.7.100", "DISCOVER for 192.168.7.100", "REQUEST for 192.168.7.100 of 192.168.7.1")

	// One of another network refuses.
	s.Authoritative = true
	s.First = p("192.168.8.50/24")
	r.reboot(cable("eth0", 1))
	r.run(5 * time.Second)
	r.expectAddresses("eth0", "192.168.8.50/24")
	r.expectSent("REQUEST for 192.168.7.100", "DISCOVER", "REQUEST for 192.168.8.50 of 192.168.7.1")
}

// TestOtherHardware: a link's name does not make it the one that had the lease.
func TestOtherHardware(t *testing.T) {
	r, _ := leased(t)
	r.run(3 * time.Second)
	r.reboot(cable("eth0", 9))
	r.run(time.Second)
	r.expectSent("DISCOVER", "REQUEST for 192.168.7.101 of 192.168.7.1")

	// The same in a running system, where the file of this boot is there.
	r.links.Remove(r.index("eth0"))
	r.links.Add(cable("eth0", 1))
	r.run(time.Second)
	r.expectAddresses("eth0", "192.168.7.100/24")
	r.expectNoFailures()
}

// TestSameBoot executes the program anew: the lease goes on without a packet.
func TestSameBoot(t *testing.T) {
	r, _ := leased(t)
	r.run(time.Minute)
	before := r.lease("eth0")
	r.restart()
	r.run(time.Second)
	r.expectSent()
	if after := r.lease("eth0"); after != before {
		t.Errorf("after a new start the lease is\n%+v; want\n%+v", after, before)
	}
	r.expectAddresses("eth0", "192.168.7.100/24")
	r.expectRoutes("eth0", "0.0.0.0/0 192.168.7.1 1026")
	r.run(29 * time.Minute)
	r.expectSent("REQUEST from 192.168.7.100 to 192.168.7.1")

	// Not once it has ended.
	path := runDir + "/eth0"
	old, err := r.files.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	r.run(3 * time.Hour)
	r.files.Put(path, old, false)
	r.sent()
	r.restart()
	r.run(time.Second)
	r.expectSent("REQUEST for 192.168.7.100")
}

// TestUnpluggedLink is a USB adapter that comes back, maybe elsewhere: what it
// had is asked for again, under its new index.
func TestUnpluggedLink(t *testing.T) {
	r, _ := leased(t)
	old := r.index("eth0")
	r.links.Remove(old)
	r.run(time.Second)
	if r.dhcp.Listening(old) {
		t.Error("the client listens to a link that is gone")
	}
	if r.store.Leases.Len() != 0 || r.store.AddressSpecs.Len() != 0 || r.store.RouteSpecs.Len() != 0 {
		t.Errorf("%d leases, %d addresses, %d routes are wanted of a link that is gone", r.store.Leases.Len(), r.store.AddressSpecs.Len(), r.store.RouteSpecs.Len())
	}
	r.links.Add(cable("eth0", 1))
	r.run(time.Second)
	r.expectSent("REQUEST for 192.168.7.100")
	r.expectAddresses("eth0", "192.168.7.100/24")
	r.expectNoFailures()
}

func TestCarrier(t *testing.T) {
	r, s := leased(t)
	r.links.SetCarrier(r.index("eth0"), false)
	r.run(time.Minute)
	r.expectAddresses("eth0", "192.168.7.100/24")
	r.links.SetCarrier(r.index("eth0"), true)
	r.run(time.Second)
	r.expectSent("REQUEST for 192.168.7.100")
	r.expectState("eth0", "BOUND")

	// Nobody hears where it is plugged in again: the lease may be used on.
	s.Silent = true
	r.links.SetCarrier(r.index("eth0"), false)
	r.run(time.Minute)
	r.links.SetCarrier(r.index("eth0"), true)
	r.run(20 * time.Second)
	r.expectState("eth0", "BOUND")
	r.expectAddresses("eth0", "192.168.7.100/24")
	r.sent()

	// The lease ends while the cable is out.
	r.links.SetCarrier(r.index("eth0"), false)
	r.run(2 * time.Hour)
	r.expectAddresses("eth0")
	r.expectSent()
	s.Silent = false
	r.links.SetCarrier(r.index("eth0"), true)
	r.run(time.Second)
	r.expectAddresses("eth0", "192.168.7.100/24")
}

func TestNoCarrierAtTheStart(t *testing.T) {
	r := newRig(t)
	r.dhcp.Join(server())
	link := cable("eth0", 1)
	link.Carrier = false
	r.links.Add(link)
	r.run(time.Hour)
	r.expectSent()
	r.expectState("eth0", "INIT")
	r.links.SetCarrier(r.index("eth0"), true)
	r.run(0)
	r.run(time.Second)
	r.expectAddresses("eth0", "192.168.7.100/24")
}

// TestLoweredLink is set down by somebody, and raised again by us: that is no
// reason to give the lease back.
func TestLoweredLink(t *testing.T) {
	r, s := leased(t)
	if err := r.links.SetUp(r.index("eth0"), false); err != nil {
		t.Fatal(err)
	}
	r.run(time.Second)
	r.expectState("eth0", "BOUND")
	r.expectSent("REQUEST for 192.168.7.100")
	r.expectAddresses("eth0", "192.168.7.100/24")
	r.expectRoutes("eth0", "0.0.0.0/0 192.168.7.1 1026")
	if s.Bound(r.clock.SinceBoot()) != 1 {
		t.Error("the server has no lease any more")
	}
	r.expectNoFailures()
}

func TestRelease(t *testing.T) {
	r, s := leased(t)
	r.configure(Settings{Interfaces: []Interface{{Name: "eth0", Up: true, Addresses: []hal.Prefix{p("10.7.0.2/24")}}}})
	r.run(time.Second)
	r.expectSent("RELEASE from 192.168.7.100 to 192.168.7.1 of 192.168.7.1")
	r.expectAddresses("eth0", "10.7.0.2/24")
	r.expectRoutes("eth0")
	if s.Bound(r.clock.SinceBoot()) != 0 || r.store.Leases.Len() != 0 || r.dhcp.Listening(r.index("eth0")) {
		t.Error("a lease that is not wanted is still there")
	}
	for _, path := range r.files.Paths() {
		if path != resolver {
			t.Errorf("%s is still there", path)
		}
	}
	r.expectNoFailures()
}

func TestTimesOfALease(t *testing.T) {
	const second, hour = time.Second, time.Hour
	for _, c := range []struct {
		name                  string
		lease, t1, t2         uint32
		renew, rebind, expire time.Duration
	}{
		{"defaults of RFC 2131, 4.4.5", 3600, 0, 0, hour / 2, hour / 8 * 7, hour},
		{"given", 3600, 60, 120, 60 * second, 120 * second, hour},
		{"T1 after T2", 3600, 2000, 1000, 875 * second, 1000 * second, hour},
		{"both after the end", 3600, 5000, 6000, hour / 2, hour / 8 * 7, hour},
		{"T2 alone, early", 3600, 0, 800, 700 * second, 800 * second, hour},
		{"T1 of a second", 3600, 1, 0, 5 * second, hour / 8 * 7, hour},
		{"no time at all", 0, 0, 0, hour / 2, hour / 8 * 7, hour},
		{"a second", 1, 0, 0, 10 * second, 17500 * time.Millisecond, 20 * second},
		{"infinite", 1<<32 - 1, 0, 0, forever / 2, forever / 8 * 7, forever},
		{"all infinite", 1<<32 - 1, 1<<32 - 1, 1<<32 - 1, forever / 2, forever / 8 * 7, forever},
		{"infinite T1", 3600, 1<<32 - 1, 0, hour / 2, hour / 8 * 7, hour},
		{"136 years", 1<<32 - 2, 0, 0, (1<<32 - 2) * second / 2, (1<<32 - 2) * second / 8 * 7, (1<<32 - 2) * second},
	} {
		l := &lease{granted: hal.DHCPMessage{Lease: c.lease, Renew: c.t1, Rebind: c.t2}}
		l.times(0)
		if l.renewAt != c.renew || l.rebindAt != c.rebind || l.expireAt != c.expire {
			t.Errorf("%s: T1 %v, T2 %v, end %v; want %v, %v, %v", c.name, l.renewAt, l.rebindAt, l.expireAt, c.renew, c.rebind, c.expire)
		}
	}
}

func TestInfiniteLease(t *testing.T) {
	r, s := newRig(t), server()
	s.Options.Lease = 1<<32 - 1
	r.links.Add(cable("eth0", 1))
	r.dhcp.Join(s)
	r.run(time.Second)
	r.sent()
	r.run(5 * 24 * time.Hour)
	r.expectSent()
	r.expectAddresses("eth0", "192.168.7.100/24")
	r.restart()
	r.run(time.Second)
	r.expectSent()
	r.expectState("eth0", "BOUND")
}
