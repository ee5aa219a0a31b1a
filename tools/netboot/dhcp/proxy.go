package dhcp

import (
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// proxy answers at port 67 beside a server that gives out addresses: a DISCOVER of
// firmware, and the REQUEST of firmware that chose this answer. What goes to the
// other server, and what is no firmware, is not its own.
func (x *exchange) proxy() (Reply, bool) {
	if x.client.Stage == Linux {
		return Reply{}, false
	}
	switch x.p.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		x.event(Event{Kind: Discovered})
		x.past.discover(x.client, x.p.TransactionID, x.now)
		return x.boot(dhcpv4.MessageTypeOffer, Offered)
	case dhcpv4.MessageTypeRequest:
		if !x.chosen() {
			return Reply{}, false
		}
		return x.boot(dhcpv4.MessageTypeAck, Booting)
	}
	return Reply{}, false
}

// bootServer answers at port 4011, where firmware asks a proxy or boot server for
// its boot file once it has an address, PXE 2.1, section 2.2.4. It may be a
// REQUEST or an INFORM, and names no server where it found this one by a menu.
func (x *exchange) bootServer() (Reply, bool) {
	t := x.p.MessageType()
	if x.client.Stage == Linux || t != dhcpv4.MessageTypeRequest && t != dhcpv4.MessageTypeInform {
		return Reply{}, false
	}
	return x.boot(dhcpv4.MessageTypeAck, Booting)
}

// boot is an answer that has no address in it.
func (x *exchange) boot(t dhcpv4.MessageType, kind Kind) (Reply, bool) {
	target, ok := x.target()
	if !ok {
		return Reply{}, false
	}
	p := x.reply(t)
	bootOptions(p, x.client, target, x.client.Server)
	if t == dhcpv4.MessageTypeAck {
		p.ClientIPAddr = x.p.ClientIPAddr
	}
	x.event(Event{Kind: kind, Target: target})
	return x.send(p)
}

// chosen is true for a request to this server, option 54.
func (x *exchange) chosen() bool {
	a, ok := netip.AddrFromSlice(x.p.ServerIdentifier().To4())
	return ok && (a == x.c.ServerIP || a == x.client.Server)
}
