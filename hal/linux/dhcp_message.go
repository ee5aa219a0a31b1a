package linux

import (
	"encoding/binary"
	"math/bits"
	"net"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"machined/hal"
)

// encodeDHCP writes a client's message (RFC 2131, section 2).
func encodeDHCP(m *hal.DHCPMessage, mac [6]byte) []byte {
	p := &dhcpv4.DHCPv4{
		OpCode: dhcpv4.OpcodeBootRequest, HWType: iana.HWTypeEthernet, ClientHWAddr: mac[:],
		NumSeconds: m.Seconds, ClientIPAddr: ipOf(m.ClientAddress), Options: make(dhcpv4.Options),
	}
	binary.BigEndian.PutUint32(p.TransactionID[:], m.Transaction)
	if m.Broadcast {
		p.SetBroadcast()
	}
	p.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageType(m.Type)))
	if m.Requested.Len == 4 {
		p.UpdateOption(dhcpv4.OptRequestedIPAddress(ipOf(m.Requested)))
	}
	if m.Server.Len == 4 {
		p.UpdateOption(dhcpv4.OptServerIdentifier(ipOf(m.Server)))
	}
	if m.Hostname != "" {
		p.UpdateOption(dhcpv4.OptHostName(m.Hostname))
	}
	if len(m.ClientID) > 0 {
		p.UpdateOption(dhcpv4.OptClientIdentifier(m.ClientID))
	}
	if m.MaxSize > 0 {
		p.UpdateOption(dhcpv4.OptMaxMessageSize(m.MaxSize))
	}
	if len(m.Parameters) > 0 {
		p.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionParameterRequestList, m.Parameters))
	}
	return p.ToBytes()
}

func ipOf(a hal.Address) net.IP { return net.IP(a.Bytes[:4]) }

// decodeDHCP reads a server's message to a client of that hardware address, and
// returns nil for anything else. Whoever is on the network can send one:
// whatever is no use is left out, and a message that would give no usable
// address is none.
func decodeDHCP(b []byte, mac [6]byte) *hal.DHCPMessage {
	p, err := dhcpv4.FromBytes(b)
	if err != nil || p.OpCode != dhcpv4.OpcodeBootReply || p.HWType != iana.HWTypeEthernet ||
		len(p.ClientHWAddr) != len(mac) || [6]byte(p.ClientHWAddr) != mac || !overload(p.Options, b) {
		return nil
	}
	m := &hal.DHCPMessage{
		Transaction: binary.BigEndian.Uint32(p.TransactionID[:]), Seconds: p.NumSeconds,
		ClientAddress: unicastOf(p.ClientIPAddr), Server: unicastOf(p.Options.Get(dhcpv4.OptionServerIdentifier)),
		Text: printable(p.Options.Get(dhcpv4.OptionMessage)),
	}
	if kind := p.Options.Get(dhcpv4.OptionDHCPMessageType); len(kind) == 1 {
		m.Type = hal.DHCPType(kind[0])
	}
	switch m.Type {
	case hal.DHCPNak:
		return m
	case hal.DHCPOffer, hal.DHCPAck:
	default:
		return nil
	}
	m.Address.Address = unicastOf(p.YourIPAddr)
	m.Address.Bits = maskBits(p.Options.Get(dhcpv4.OptionSubnetMask))
	if m.Address.Address.Len == 0 || m.Address.Bits == 0 {
		return nil
	}
	leaseOptions(m, p.Options)
	return m
}

// overload adds the options that are where the server's name and the boot
// file's would be (RFC 2132, 9.3), and reports whether they can be read.
func overload(options dhcpv4.Options, b []byte) bool {
	where := options.Get(dhcpv4.OptionOptionOverload)
	if len(where) != 1 {
		return len(where) == 0
	}
	const name, file, end = 44, 108, 236
	if where[0]&1 != 0 && options.FromBytes(b[file:end]) != nil {
		return false
	}
	return where[0]&2 == 0 || options.FromBytes(b[name:file]) == nil
}

// Bounds of what is taken from one message.
const (
	maxDHCPRoutes  = 16
	maxDHCPServers = 4
	maxDHCPDomains = 8
	maxDHCPText    = 128
	// Less than RFC 791 has every host accept makes no sense, and more than
	// the jumbo frames of switches neither.
	minDHCPMTU, maxDHCPMTU = 576, 9216
)

func leaseOptions(m *hal.DHCPMessage, o dhcpv4.Options) {
	m.Lease = number32(o.Get(dhcpv4.OptionIPAddressLeaseTime))
	m.Renew = number32(o.Get(dhcpv4.OptionRenewTimeValue))
	m.Rebind = number32(o.Get(dhcpv4.OptionRebindingTimeValue))
	m.Hostname = hostname(o.Get(dhcpv4.OptionHostName))
	m.Nameservers = serversOf(o.Get(dhcpv4.OptionDomainNameServer))
	m.TimeServers = serversOf(o.Get(dhcpv4.OptionNTPServers))
	m.Search = searchList(o.Get(dhcpv4.OptionDNSDomainSearchList), o.Get(dhcpv4.OptionDomainName))
	if mtu := o.Get(dhcpv4.OptionInterfaceMTU); len(mtu) == 2 {
		if n := binary.BigEndian.Uint16(mtu); n >= minDHCPMTU && n <= maxDHCPMTU {
			m.MTU = uint32(n)
		}
	}
	m.Routes = classlessRoutes(o.Get(dhcpv4.OptionClasslessStaticRoute))
	if len(m.Routes) > 0 {
		return // RFC 3442: then option 3 must not count
	}
	if routers := serversOf(o.Get(dhcpv4.OptionRouter)); len(routers) > 0 {
		m.Routes = []hal.DHCPRoute{{Destination: hal.Prefix{Address: hal.Address{Len: 4}}, Gateway: routers[0]}}
	}
}

func number32(b []byte) uint32 {
	if len(b) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// maskBits returns the length of a netmask, and 0 for what is none.
func maskBits(b []byte) uint8 {
	mask := number32(b)
	n := bits.LeadingZeros32(^mask)
	if mask<<n != 0 {
		return 0
	}
	return uint8(n)
}

// unicastOf returns an address that a host can have, or none.
func unicastOf(b []byte) hal.Address {
	if len(b) != 4 || b[0] == 0 || b[0] == 127 || b[0] >= 224 {
		return hal.Address{}
	}
	a := hal.Address{Len: 4}
	copy(a.Bytes[:], b)
	return a
}

// serversOf reads a list of addresses. One that no host can have is left out,
// and so is one that was there before.
func serversOf(b []byte) []hal.Address {
	var list []hal.Address
	for ; len(b) >= 4 && len(list) < maxDHCPServers; b = b[4:] {
		a := unicastOf(b[:4])
		known := a.Len == 0
		for _, other := range list {
			known = known || other == a
		}
		if !known {
			list = append(list, a)
		}
	}
	return list
}

// classlessRoutes reads option 121 (RFC 3442). One that cannot be read to its
// end counts for nothing.
func classlessRoutes(b []byte) []hal.DHCPRoute {
	var parsed dhcpv4.Routes
	if parsed.FromBytes(b) != nil {
		return nil
	}
	var routes []hal.DHCPRoute
	for _, r := range parsed {
		ones, _ := r.Dest.Mask.Size()
		to := hal.Prefix{Address: hal.Address{Len: 4}, Bits: uint8(ones)}
		copy(to.Address.Bytes[:], r.Dest.IP)
		route := hal.DHCPRoute{Destination: to.Masked(), Gateway: unicastOf(r.Router)}
		// 0.0.0.0 is the link itself; other addresses of no host are nonsense.
		if route.Gateway.Len == 0 && !r.Router.Equal(net.IPv4zero) || routedAlready(routes, route) || len(routes) == maxDHCPRoutes {
			continue
		}
		routes = append(routes, route)
	}
	return routes
}

// routedAlready reports whether an earlier route has the same destination: one
// of the two could not be set.
func routedAlready(routes []hal.DHCPRoute, r hal.DHCPRoute) bool {
	for _, other := range routes {
		if other.Destination == r.Destination {
			return true
		}
	}
	return false
}
