package network

import (
	"strings"
	"testing"
	"time"

	"machined/hal"
	"machined/hal/fake"
)

func TestNobodyAnswers(t *testing.T) {
	r := newRig(t)
	r.links.Add(cable("eth0", 1))
	r.run(30 * time.Second)
	r.expectState("eth0", "SELECTING")
	if got := r.lease("eth0").Trouble; got != "no DHCP server answers" {
		t.Errorf("trouble %q after 30 s; want that nobody answers", got)
	}
	var last, pause int64
	for i, s := range r.dhcp.Sent {
		if i > 0 && s.At-last < pause {
			t.Errorf("message %d came %v after the one before, that one after %v; want longer pauses", i, time.Duration(s.At-last), time.Duration(pause))
		}
		if i > 0 {
			pause = s.At - last - int64(time.Second) // without what is by chance
		}
		last = s.At
	}
	r.expectNoFailures() // it is a trouble of the network, and no failure
	// Somebody answers late, to the first of the messages.
	late := server()
	late.Delay = 5e9
	r.dhcp.Join(late)
	r.run(2 * time.Minute)
	r.expectState("eth0", "BOUND")
	if got := r.lease("eth0").Trouble; got != "" {
		t.Errorf("trouble %q with a lease; want none", got)
	}
}

// TestBadNetworks has everything on the way that networks do to messages, and a
// lease comes of it all the same.
func TestBadNetworks(t *testing.T) {
	for name, spoil := range map[string]func(*fake.DHCPServer){
		"twice":          func(s *fake.DHCPServer) { s.Duplicate = true },
		"garbage":        func(s *fake.DHCPServer) { s.Garbage = true },
		"out of order":   func(s *fake.DHCPServer) { s.Disorder, s.Duplicate = true, true },
		"late":           func(s *fake.DHCPServer) { s.Delay = 1500e6 },
		"lossy":          func(s *fake.DHCPServer) { s.Deaf = 3 },
		"all at once":    func(s *fake.DHCPServer) { s.Garbage, s.Duplicate, s.Disorder, s.Deaf = true, true, true, 1 },
		"without server": func(s *fake.DHCPServer) { s.Garbage = true; s.Delay = 1e9 },
	} {
		t.Run(name, func(t *testing.T) {
			r, s := newRig(t), server()
			spoil(s)
			r.links.Add(cable("eth0", 1))
			r.dhcp.Join(s)
			r.run(time.Minute)
			r.expectState("eth0", "BOUND")
			r.expectAddresses("eth0", "192.168.7.100/24")
			r.run(50 * time.Minute)
			r.expectState("eth0", "BOUND")
			r.expectAddresses("eth0", "192.168.7.100/24")
			if got := r.lease("eth0").Server; got != s.Address {
				t.Errorf("the lease is of server %v; want %v", got, s.Address)
			}
			r.expectNoFailures()
		})
	}
}

// TestTwoServers: the first offer is taken, the other server is told, and its
// refusals are not ours.
func TestTwoServers(t *testing.T) {
	r, fast, slow := newRig(t), server(), server()
	slow.Address, slow.First, slow.Delay, slow.Refuses = ip("192.168.7.9"), p("192.168.7.200/24"), 10e6, true
	r.links.Add(cable("eth0", 1))
	r.dhcp.Join(slow)
	r.dhcp.Join(fast)
	r.run(time.Minute)
	r.expectAddresses("eth0", "192.168.7.100/24")
	r.expectSent("DISCOVER", "REQUEST for 192.168.7.100 of 192.168.7.1")
}

func TestTwoLinks(t *testing.T) {
	r, left, right := newRig(t), server(), server()
	r.dhcp.Join(left)
	r.dhcp.Join(right)
	left.Link = r.links.Add(cable("eth0", 1))
	right.Link = r.links.Add(cable("eth1", 2))
	right.Address, right.First = ip("192.168.8.1"), p("192.168.8.100/24")
	right.Options.Routes = []hal.DHCPRoute{{Destination: p("0.0.0.0/0"), Gateway: ip("192.168.8.1")}}
	right.Options.Nameservers = []hal.Address{ip("192.168.8.1"), ip("192.168.7.1")}
	r.run(time.Second)
	r.expectAddresses("eth0", "192.168.7.100/24")
	r.expectAddresses("eth1", "192.168.8.100/24")
	r.expectRoutes("eth0", "0.0.0.0/0 192.168.7.1 1025")
	r.expectRoutes("eth1", "0.0.0.0/0 192.168.8.1 1026")
	r.expectResolver("nameserver 192.168.7.1\nnameserver 192.168.8.1\nsearch lan\n")
	r.expectNoFailures()
}

func TestRoutesOfALease(t *testing.T) {
	route := func(to, via string) hal.DHCPRoute {
		r := hal.DHCPRoute{Destination: p(to)}
		if via != "" {
			r.Gateway = ip(via)
		}
		return r
	}
	for _, c := range []struct {
		name, first string
		routes      []hal.DHCPRoute
		want        []string
	}{
		{"none", "192.168.7.100/24", nil, nil},
		{
			"of option 121", "192.168.7.100/24",
			[]hal.DHCPRoute{route("0.0.0.0/0", "192.168.7.1"), route("10.0.0.0/8", "192.168.7.2"), route("172.16.0.0/12", "")},
			[]string{"0.0.0.0/0 192.168.7.1 1025", "10.0.0.0/8 192.168.7.2 1025", "172.16.0.0/12  1025"},
		},
		{
			"a gateway outside of the network", "192.168.7.100/32", []hal.DHCPRoute{route("0.0.0.0/0", "10.255.0.1")},
			[]string{"10.255.0.1/32  1025", "0.0.0.0/0 10.255.0.1 1025"},
		},
		{
			"a gateway in a network of option 121", "192.168.7.100/32",
			[]hal.DHCPRoute{route("10.255.0.0/16", ""), route("0.0.0.0/0", "10.255.0.1")},
			[]string{"10.255.0.0/16  1025", "0.0.0.0/0 10.255.0.1 1025"},
		},
		{"the host itself as the gateway", "192.168.7.100/24", []hal.DHCPRoute{route("0.0.0.0/0", "192.168.7.100")}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, s := newRig(t), server()
			s.First, s.Options.Routes = p(c.first), c.routes
			r.links.Add(cable("eth0", 1))
			r.dhcp.Join(s)
			r.run(time.Minute)
			r.expectRoutes("eth0", c.want...)
			r.expectNoFailures()
			r.configure(Settings{Interfaces: []Interface{{Name: "eth0", Up: true}}})
			r.run(time.Minute)
			r.expectRoutes("eth0")
			r.expectNoFailures()
		})
	}
}

// TestMoreRoutesThanAreTaken: what a network makes a node remember has an end.
func TestMoreRoutesThanAreTaken(t *testing.T) {
	r, s := newRig(t), server()
	for i := range 20 {
		s.Options.Routes = append(s.Options.Routes, hal.DHCPRoute{
			Destination: hal.Prefix{Address: hal.Address{Bytes: [16]byte{10, byte(i)}, Len: 4}, Bits: 16}, Gateway: ip("192.168.7.1"),
		})
	}
	r.links.Add(cable("eth0", 1))
	r.dhcp.Join(s)
	r.run(time.Second)
	if got := r.lease("eth0").RouteCount; got != 16 {
		t.Errorf("%d routes were taken; want 16", got)
	}
	r.expectNoFailures()
}

// TestSocketFails: a link that cannot be listened to is tried again, without the
// loop going round and round meanwhile.
func TestSocketFails(t *testing.T) {
	r := newRig(t)
	r.links.Add(cable("eth0", 1))
	r.dhcp.Join(server())
	r.dhcp.FailAlways("Open", hal.ErrInvalid)
	r.run(time.Minute)
	if l := r.lease("eth0"); l.Trouble != hal.ErrInvalid.Error() {
		t.Errorf("trouble %q; want that of the socket", l.Trouble)
	}
	r.dhcp.Heal("Open")
	r.run(10 * time.Second)
	r.expectState("eth0", "BOUND")

	// A renewal that cannot be sent goes out to all later.
	r.dhcp.FailAlways("Send", hal.ErrInvalid)
	r.run(40 * time.Minute)
	r.expectAddresses("eth0", "192.168.7.100/24")
	r.dhcp.Heal("Send")
	r.run(19 * time.Minute)
	r.expectState("eth0", "BOUND")
	r.expectNoFailures()
}

// TestRenewalWithoutTheAddress: somebody removed it, it comes back, and with it
// the way to renew.
func TestRenewalWithoutTheAddress(t *testing.T) {
	r, _ := leased(t)
	if err := r.links.RemoveAddress(r.index("eth0"), p("192.168.7.100/24")); err != nil {
		t.Fatal(err)
	}
	r.run(0)
	r.expectAddresses("eth0", "192.168.7.100/24")
	r.expectRoutes("eth0", "0.0.0.0/0 192.168.7.1 1026")
	r.run(30 * time.Minute)
	r.expectSent("REQUEST from 192.168.7.100 to 192.168.7.1")
}

// TestChangedLease: a renewal may bring other options, and even another address.
func TestChangedLease(t *testing.T) {
	r, s := leased(t)
	s.Options.Routes = []hal.DHCPRoute{{Destination: p("0.0.0.0/0"), Gateway: ip("192.168.7.254")}}
	s.Options.Nameservers = []hal.Address{ip("192.168.7.254")}
	s.Options.MTU, s.Options.Hostname = 1400, "kitchen"
	r.run(31 * time.Minute)
	r.expectRoutes("eth0", "0.0.0.0/0 192.168.7.254 1026")
	r.expectResolver("nameserver 192.168.7.254\nsearch lan\n")
	if mtu := r.link("eth0").MTU; mtu != 1400 {
		t.Errorf("MTU %d; want the lease's 1400", mtu)
	}
	r.expectHostname("kitchen")

	// With the lease goes what came with it.
	r.dhcp.Leave(s)
	r.run(time.Hour)
	if mtu := r.link("eth0").MTU; mtu != 1500 {
		t.Errorf("MTU %d without a lease; want the driver's 1500", mtu)
	}
	r.expectHostname(DefaultHostname)
	r.expectResolver("")
	r.expectNoFailures()
}

// TestPlaceForTheNextBoot: STATE is mounted after the first lease, or never, or
// cannot be written at first.
func TestPlaceForTheNextBoot(t *testing.T) {
	r := newRig(t)
	r.keep = ""
	r.links.Add(cable("eth0", 1))
	r.dhcp.Join(server())
	r.run(time.Minute)
	if n := r.jobs.Started(); n != 0 {
		t.Errorf("%d jobs without a place for the lease; want none", n)
	}
	r.keep = keepDir
	r.files.FailAlways("Replace", hal.ErrNoSpace)
	r.volume()
	r.run(10 * time.Minute)
	if n := r.jobs.Started(); n < 2 || n > 12 {
		t.Errorf("%d tries in 10 minutes to write to a full volume; want one a minute", n)
	}
	r.files.Heal("Replace")
	r.run(time.Minute)
	text, err := r.files.Read(keepDir + "/eth0")
	if err != nil || !strings.Contains(string(text), "\naddress 192.168.7.100/24\n") {
		t.Errorf("what is kept for the next boot is %q, %v; want the address", text, err)
	}
	r.expectRest(10 * time.Minute)
}

// TestWritesInOrder: the file says the last address, however long each write
// takes.
func TestWritesInOrder(t *testing.T) {
	r, s := newRig(t), server()
	r.jobs.Delays = func(n int) int64 { return []int64{40e9, 1e9, 1e9, 1e9}[min(n-1, 3)] }
	r.links.Add(cable("eth0", 1))
	s.Options.Lease = 40
	r.dhcp.Join(s)
	r.run(5 * time.Second)
	s.First = p("192.168.7.180/24")
	r.run(60 * time.Second)
	r.expectAddresses("eth0", "192.168.7.180/24")
	text, _ := r.files.Read(keepDir + "/eth0")
	if !strings.Contains(string(text), "address 192.168.7.180/24") {
		t.Errorf("what is kept for the next boot is %q; want the last address", text)
	}
}

// TestDamagedFiles: what a file says that is not whole, or not ours, is nothing.
func TestDamagedFiles(t *testing.T) {
	r, _ := leased(t)
	r.run(5 * time.Second)
	whole, err := r.files.Read(runDir + "/eth0")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"cut off": string(whole[:len(whole)-5]), "empty": "", "garbage": "\x00\xff\n", "header alone": leaseHeader + "\n",
		"from the future": strings.Replace(string(whole), "granted ", "granted 99999", 1),
	} {
		r.reboot(cable("eth0", 1))
		r.files.Put(runDir+"/eth0", []byte(text), false)
		r.files.Put(keepDir+"/eth0", []byte(text), false)
		r.dhcp.Sent = nil
		r.start()
		r.run(time.Second)
		r.expectState("eth0", "BOUND")
		if sent := r.sent(); len(sent) == 0 {
			t.Errorf("%s: the lease went on without a message", name)
		}
		r.run(5 * time.Second)
	}
	r.expectNoFailures()
}
