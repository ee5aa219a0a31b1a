package dhcp

import (
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// full answers at port 67 as the server of the network, RFC 2131, section 4.3.
func (x *exchange) full() (Reply, bool) {
	relay, _ := netip.AddrFromSlice(x.p.GatewayIPAddr.To4())
	if relay.IsValid() && !relay.IsUnspecified() && !x.c.Subnet.Contains(relay) {
		x.event(Event{Kind: Foreign, Address: relay, Detail: "a relay of a network that this server has no addresses of"})
		return Reply{}, false
	}
	switch x.p.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		return x.discover()
	case dhcpv4.MessageTypeRequest:
		return x.request()
	case dhcpv4.MessageTypeDecline:
		return x.decline()
	case dhcpv4.MessageTypeRelease:
		return x.release()
	case dhcpv4.MessageTypeInform:
		return x.inform()
	}
	return Reply{}, false
}

func (x *exchange) discover() (Reply, bool) {
	x.event(Event{Kind: Discovered})
	x.past.discover(x.client, x.p.TransactionID, x.now)
	a, err := x.book.find(x.client.MAC, x.asked(), x.now)
	if err != nil {
		x.event(Event{Kind: Exhausted, Detail: err.Error()})
		return Reply{}, false
	}
	p := x.reply(dhcpv4.MessageTypeOffer)
	target := x.settings(p, a)
	l := Lease{MAC: x.client.MAC, Address: a, Expires: x.now.Add(offerTime), Hostname: x.client.Hostname}
	switch old := x.book.byMAC[l.MAC]; {
	case x.client.Stage == RaspberryPi:
		// The boot ROM takes the offer for the lease and never asks for it.
		l.Expires = x.now.Add(x.c.LeaseTime)
		if !x.keep(l) {
			return Reply{}, false
		}
	case old.Address == a && old.Expires.After(l.Expires): // it has the lease already
	default:
		x.book.put(l)
	}
	x.event(Event{Kind: Offered, Address: a, Target: target})
	return x.send(p)
}

// request tells the four uses of REQUEST apart, RFC 2131, section 4.3.2.
func (x *exchange) request() (Reply, bool) {
	if x.p.Options.Has(dhcpv4.OptionServerIdentifier) && !x.chosen() {
		// Another server was chosen: the address is free again.
		if l := x.book.byMAC[x.client.MAC]; !l.Expires.After(x.now.Add(offerTime)) {
			x.book.release(x.client.MAC, l.Address, x.now)
		}
		x.event(Event{Kind: Elsewhere, Detail: "it chose another server's offer: two DHCP servers are on this network; stop the other one, or run this one as a proxy"})
		return Reply{}, false
	}
	a := x.asked()
	if !a.IsValid() || a.IsUnspecified() {
		a, _ = netip.AddrFromSlice(x.p.ClientIPAddr.To4())
	}
	if !x.book.free(x.client.MAC, a, x.now) {
		return x.refuse(a)
	}
	p := x.reply(dhcpv4.MessageTypeAck)
	p.ClientIPAddr = x.p.ClientIPAddr
	target := x.settings(p, a)
	if !x.keep(Lease{MAC: x.client.MAC, Address: a, Expires: x.now.Add(x.c.LeaseTime), Hostname: x.client.Hostname}) {
		return Reply{}, false
	}
	x.event(Event{Kind: Leased, Address: a, Target: target})
	if target != (Target{}) {
		x.event(Event{Kind: Booting, Address: a, Target: target})
	}
	return x.send(p)
}

// refuse has a board that asks for a wrong address begin anew. This server is the
// only one of its network, so that it need not be silent about those that it does
// not know.
func (x *exchange) refuse(a netip.Addr) (Reply, bool) {
	why := "it is of another network"
	switch {
	case x.c.Subnet.Contains(a) && !x.book.may(x.client.MAC, a):
		why = "it is not in the pool, or another board's static lease"
	case x.c.Subnet.Contains(a):
		why = "another board has it, or it was found in use"
	}
	x.event(Event{Kind: Refused, Address: a, Detail: why})
	p := x.reply(dhcpv4.MessageTypeNak)
	p.UpdateOption(dhcpv4.OptMessage(why))
	if relay := x.p.GatewayIPAddr.To4(); relay != nil && !relay.IsUnspecified() {
		p.SetBroadcast() // RFC 2131, section 4.1: the relay has to broadcast it
	}
	return x.send(p)
}

func (x *exchange) decline() (Reply, bool) {
	a := x.asked()
	if x.chosen() && x.book.decline(x.client.MAC, a, x.now.Add(x.c.LeaseTime)) {
		x.event(Event{Kind: Declined, Address: a, Detail: "somebody else has it: give that machine an address outside of the pool"})
		x.save()
	}
	return Reply{}, false
}

func (x *exchange) release() (Reply, bool) {
	a, _ := netip.AddrFromSlice(x.p.ClientIPAddr.To4())
	if x.chosen() && x.book.release(x.client.MAC, a, x.now) {
		x.event(Event{Kind: Released, Address: a})
		x.save()
	}
	return Reply{}, false
}

// inform gives settings to a client that has its address from elsewhere: no lease
// time, and no address, RFC 2131, section 4.3.5.
func (x *exchange) inform() (Reply, bool) {
	a, _ := netip.AddrFromSlice(x.p.ClientIPAddr.To4())
	if !x.c.Subnet.Contains(a) {
		return Reply{}, false
	}
	p := x.reply(dhcpv4.MessageTypeAck)
	p.ClientIPAddr = x.p.ClientIPAddr
	target := x.settings(p, netip.Addr{})
	x.event(Event{Kind: Informed, Address: a, Target: target})
	return x.send(p)
}

// settings puts the lease's options and those for booting into an answer. No
// address is that of an INFORM.
func (x *exchange) settings(p *dhcpv4.DHCPv4, a netip.Addr) Target {
	p.UpdateOption(dhcpv4.OptSubnetMask(net.CIDRMask(x.c.Subnet.Bits(), 32)))
	if x.c.Router.IsValid() {
		p.UpdateOption(dhcpv4.OptRouter(x.c.Router.AsSlice()))
	}
	if len(x.c.DNS) > 0 {
		var servers []net.IP
		for _, d := range x.c.DNS {
			servers = append(servers, d.AsSlice())
		}
		p.UpdateOption(dhcpv4.OptDNS(servers...))
	}
	if a.IsValid() {
		p.YourIPAddr = a.AsSlice()
		p.UpdateOption(dhcpv4.OptIPAddressLeaseTime(x.c.LeaseTime))
		p.UpdateOption(dhcpv4.OptRenewTimeValue(x.c.LeaseTime / 2))
		p.UpdateOption(dhcpv4.OptRebindingTimeValue(x.c.LeaseTime / 8 * 7))
	}
	if s := x.book.statics[x.client.MAC]; s.Hostname != "" {
		p.UpdateOption(dhcpv4.OptHostName(s.Hostname))
	}
	target, ok := x.target()
	if ok {
		bootOptions(p, x.client, target, x.client.Server)
	}
	return target
}

// asked is option 50.
func (x *exchange) asked() netip.Addr {
	a, _ := netip.AddrFromSlice(x.p.RequestedIPAddress().To4())
	return a
}

// keep puts a lease into the book and the file. One that would not outlast this
// program is not given out.
func (x *exchange) keep(l Lease) bool {
	x.book.put(l)
	return x.save()
}

func (x *exchange) save() bool {
	if x.c.LeaseFile == "" {
		return true
	}
	err := writeLeases(x.c.LeaseFile, x.book.list())
	if err != nil {
		x.event(Event{Kind: Failed, Err: err, Detail: "the board gets no answer; make room for the file of leases"})
	}
	return err == nil
}
