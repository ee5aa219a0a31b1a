package main

import (
	"fmt"
	"slices"

	"machined/hal"
	"machined/hal/fake"
)

// nic is a network card and the cable at its other end, with the DHCP servers
// of that network.
type nic struct {
	id      byte
	name    string
	mac     [6]byte
	wired   bool
	loop    bool
	carrier bool
	index   uint32 // of the kernel; 0 while the card is not there
	mtu     uint32 // that the driver starts with
	mtus    []uint32
	servers []*fake.DHCPServer
	// What others have put there, and the node must leave alone.
	addresses []hal.Prefix
	routes    []hal.Route
}

// nowhere is a link that no message goes by.
const nowhere = 1 << 31

func (w *world) makeNICs() {
	lo := &nic{name: "lo", loop: true, mtu: 65535}
	w.nics = append(w.nics, lo)
	w.plugNIC(lo)
	for i := range w.between(1, 4) {
		n := &nic{id: byte(i + 1), name: fmt.Sprintf("eth%d", i), wired: true, carrier: w.chance(85), mtu: 1500}
		if w.chance(20) {
			n.name, n.wired = fmt.Sprintf("wlan%d", i), false
		}
		n.mac = [6]byte{2, 0, 0, 0, 0, n.id}
		for range pick(w, 0, 1, 1, 1, 2) {
			w.addServer(n)
		}
		w.nics = append(w.nics, n)
		if w.chance(80) {
			w.plugNIC(n)
		} else {
			w.later(w.seconds(1, 120), func() { w.plugNIC(n) })
		}
	}
}

// addServer puts a DHCP server on the network of a card.
func (w *world) addServer(n *nic) {
	host := byte(1 + len(n.servers))
	s := &fake.DHCPServer{Address: v4(192, 168, n.id, host), Link: nowhere, Size: 20}
	s.First = prefix(v4(192, 168, n.id, 100*host), 24)
	w.manners(s)
	w.offers(s, n)
	n.servers = append(n.servers, s)
	w.dhcp.Join(s)
}

// manners makes a server behave as some do.
func (w *world) manners(s *fake.DHCPServer) {
	s.Authoritative, s.Delay = w.chance(60), w.between(0, 3*second)
	s.Duplicate, s.Garbage, s.Disorder = w.chance(20), w.chance(20), w.chance(15)
	s.Silent = w.chance(10)
}

// offers sets what a server has to say beside the address.
func (w *world) offers(s *fake.DHCPServer, n *nic) {
	o := hal.DHCPMessage{Lease: pick[uint32](w, 0, 60, 300, 1800, 3600)}
	if w.chance(20) {
		o.Renew, o.Rebind = uint32(w.between(0, 4000)), uint32(w.between(0, 4000))
	}
	router := s.Address
	if w.chance(10) {
		router = v4(172, 20, n.id, 1) // in no network of the link
	}
	if w.chance(85) {
		o.Routes = append(o.Routes, hal.DHCPRoute{Destination: hal.Prefix{Address: hal.Address{Len: 4}}, Gateway: router})
	}
	for i := range byte(w.rng.IntN(3)) {
		o.Routes = append(o.Routes, hal.DHCPRoute{Destination: prefix(v4(10, 220+i, n.id, 0), 24), Gateway: s.Address})
	}
	if w.chance(70) {
		o.Nameservers = []hal.Address{s.Address}
	}
	if w.chance(30) {
		o.TimeServers = []hal.Address{v4(192, 168, n.id, 2)}
	}
	o.Search = pick(w, nil, []string{"lan"}, []string{"lan", "example.net"})
	o.MTU = pick[uint32](w, 0, 0, 0, 1400, 9000)
	o.Hostname = pick(w, "", "", fmt.Sprintf("leased-%d", n.id))
	s.Options = o
}

// move gives a server another network.
func (w *world) move(s *fake.DHCPServer, n *nic) {
	net := pick(w, n.id, n.id+100)
	s.Address.Bytes[2], s.First.Address.Bytes[2] = net, net
	w.offers(s, n)
}

// plugNIC makes a card appear. The kernel gives it a new index.
func (w *world) plugNIC(n *nic) {
	if n.index != 0 {
		return
	}
	n.index = w.links.Add(hal.Link{Name: n.name, Wired: n.wired, Loopback: n.loop, Carrier: n.carrier || n.loop, MTU: n.mtu, MAC: n.mac})
	n.mtus = []uint32{n.mtu}
	for _, s := range n.servers {
		s.Link = n.index
	}
	key := raKey(n.name)
	if _, err := w.host.Sysctl(key); err != nil {
		w.host.AddSysctl(key, "1", nil)
	} else if err := w.host.SetSysctl(key, "1"); err != nil {
		w.fail("simulation", "set %s: %v", key, err)
	}
	w.note("%s is link %d", n.name, n.index)
}

func raKey(link string) string { return "net/ipv6/conf/" + link + "/accept_ra" }

func (w *world) unplugNIC(n *nic) {
	w.note("%s goes", n.name)
	w.links.Remove(n.index)
	n.index, n.addresses, n.routes = 0, nil, nil
	for _, s := range n.servers {
		s.Link = nowhere
	}
}

func (w *world) nicOf(index uint32) *nic {
	for _, n := range w.nics {
		if n.index == index {
			return n
		}
	}
	return nil
}

// link returns the kernel's view of a card that is there.
func (w *world) link(n *nic) hal.Link {
	all, _ := w.links.List()
	for _, l := range all {
		if l.Index == n.index {
			return l
		}
	}
	return hal.Link{}
}

// mayRemoveAddress and mayRemoveRoute judge calls of the node.
func (w *world) mayRemoveAddress(index uint32, p hal.Prefix) {
	if n := w.nicOf(index); n != nil && slices.Contains(n.addresses, p) {
		w.fail("foreign address", "the node removes %v of %s, which is not its own", p, n.name)
	}
}

func (w *world) mayRemoveRoute(r hal.Route) {
	if n := w.nicOf(r.Link); n != nil && slices.Contains(n.routes, r) {
		w.fail("foreign route", "the node removes the route to %v on %s, which is not its own", r.Destination, n.name)
	}
}

// afterLink forgets the routes of others that the kernel has dropped, as it
// does with a link that goes down or loses its last address.
func (w *world) afterLink() {
	all, _ := w.links.Routes()
	for _, n := range w.nics {
		n.routes = slices.DeleteFunc(n.routes, func(r hal.Route) bool { return !slices.Contains(all, r) })
	}
}

// timeHost is a time server and what it is like.
type timeHost struct {
	*fake.NTPServer
	honest bool
}

func (w *world) makeTimeHosts() {
	names := []string{"time.cloudflare.com", "pool.ntp.org"}
	for i := range 5 {
		names = append(names, fmt.Sprintf("ntp%d.example", i))
	}
	for _, n := range w.nics[1:] {
		names = append(names, v4(192, 168, n.id, 2).String())
	}
	for _, name := range names {
		h := &timeHost{NTPServer: &fake.NTPServer{Name: name}}
		w.character(h)
		w.hosts = append(w.hosts, h)
		w.ntp.Join(h.NTPServer)
	}
}

// character makes a time server honest, or not.
func (w *world) character(h *timeHost) {
	s := h.NTPServer
	*s = fake.NTPServer{Name: s.Name, Offset: w.between(-3_000_000, 3_000_000), Delay: w.between(1_000_000, 200_000_000)}
	s.RootDelay, s.RootDispersed = w.between(0, 50_000_000), w.between(0, 50_000_000)
	h.honest = true
	if w.chance(65) {
		return
	}
	h.honest = false
	switch w.rng.IntN(6) {
	case 0:
		s.Silent = true
	case 1:
		s.Offset = w.seconds(-3600, 3600) * 24
	case 2:
		s.Offset = -10 * 365 * 24 * hour // before the program was built
	case 3:
		s.Leap = 3
	case 4:
		s.RootDispersed = 5 * second
	case 5:
		s.Kiss = pick(w, "RATE", "DENY", "INIT")
	}
}
