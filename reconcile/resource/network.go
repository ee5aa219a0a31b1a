package resource

import "machined/hal"

// LinkSpec is what a link is to be.
type LinkSpec struct {
	Name string
	Up   bool
	MTU  uint32 // bytes; 0 leaves it to the driver, or to DHCP
	// DHCP4 asks for an address by DHCPv4.
	DHCP4 bool
	// AcceptRA lets the kernel take addresses and routes from IPv6 router
	// advertisements (RFC 4861, RFC 4862).
	AcceptRA bool
}

func (LinkSpec) Kind() Kind { return LinkSpecKind }
func (s LinkSpec) Key() Key { return Named(s.Name) }

// Fields implements Resource.
func (s LinkSpec) Fields() []Field {
	return []Field{
		{"name", s.Name}, {"up", flag(s.Up)}, {"mtu", count(uint64(s.MTU))},
		{"dhcp4", flag(s.DHCP4)}, {"accept_ra", flag(s.AcceptRA)},
	}
}

// AddressSpec is an address that a link is to have.
type AddressSpec struct {
	Link    string
	Address hal.Prefix
}

func (AddressSpec) Kind() Kind { return AddressSpecKind }
func (s AddressSpec) Key() Key { return Key{Name: s.Link, Prefix: s.Address} }

// Fields implements Resource.
func (s AddressSpec) Fields() []Field {
	return []Field{{"link", s.Link}, {"address", s.Address.String()}}
}

// RouteSpec is a route that the main table is to have.
type RouteSpec struct {
	Link        string
	Destination hal.Prefix
	Gateway     hal.Address // Len 0 for a route to the link itself
	Metric      uint32
}

func (RouteSpec) Kind() Kind { return RouteSpecKind }
func (s RouteSpec) Key() Key {
	return Key{Name: s.Link, Prefix: s.Destination, Gateway: s.Gateway, Number: s.Metric}
}

// Fields implements Resource.
func (s RouteSpec) Fields() []Field {
	return []Field{
		{"link", s.Link}, {"destination", s.Destination.String()}, {"gateway", s.Gateway.String()},
		{"metric", count(uint64(s.Metric))},
	}
}

// HostnameSpec is the host name that the node is to have.
type HostnameSpec struct{ Hostname string }

func (HostnameSpec) Kind() Kind { return HostnameSpecKind }
func (HostnameSpec) Key() Key   { return Named("hostname") }

// Fields implements Resource.
func (s HostnameSpec) Fields() []Field { return []Field{{"hostname", s.Hostname}} }

// ResolverSpec is what resolv.conf(5) is to say.
type ResolverSpec struct {
	Nameservers string // addresses, with a space between
	Search      string // domains, with a space between
}

func (ResolverSpec) Kind() Kind { return ResolverSpecKind }
func (ResolverSpec) Key() Key   { return Named("resolver") }

// Fields implements Resource.
func (s ResolverSpec) Fields() []Field {
	return []Field{{"nameservers", s.Nameservers}, {"search", s.Search}}
}

// LinkStatus is a network interface as observed.
type LinkStatus struct {
	Name     string
	Index    uint32 // of the kernel; 0 for a link that a spec waits for
	Up       bool
	Carrier  bool
	Wired    bool
	Loopback bool
	MTU      uint32 // bytes
	MAC      [6]byte
}

func (LinkStatus) Kind() Kind { return LinkStatusKind }
func (s LinkStatus) Key() Key { return Named(s.Name) }

// Fields implements Resource.
func (s LinkStatus) Fields() []Field {
	return []Field{
		{"name", s.Name}, {"up", flag(s.Up)}, {"mtu", count(uint64(s.MTU))}, {"mac", formatMAC(s.MAC)},
		{"carrier", flag(s.Carrier)}, {"present", flag(s.Index != 0)},
	}
}

func formatMAC(mac [6]byte) string {
	const hex = "0123456789abcdef"
	out := make([]byte, 0, 17)
	for i, b := range mac {
		if i > 0 {
			out = append(out, ':')
		}
		out = append(out, hex[b>>4], hex[b&15])
	}
	return string(out)
}

// AddressStatus is an address of a link as observed.
type AddressStatus struct {
	Link    string
	Address hal.Prefix
}

func (AddressStatus) Kind() Kind { return AddressStatusKind }
func (s AddressStatus) Key() Key { return Key{Name: s.Link, Prefix: s.Address} }

// Fields implements Resource.
func (s AddressStatus) Fields() []Field {
	return []Field{{"link", s.Link}, {"address", s.Address.String()}}
}

// RouteStatus is a route of the main table as observed.
type RouteStatus struct {
	Link        string
	Destination hal.Prefix
	Gateway     hal.Address // Len 0 for a route to the link itself
	Metric      uint32
}

func (RouteStatus) Kind() Kind { return RouteStatusKind }

// Key tells routes to one destination apart, as the kernel does.
func (s RouteStatus) Key() Key {
	return Key{Name: s.Link, Prefix: s.Destination, Gateway: s.Gateway, Number: s.Metric}
}

// Fields implements Resource.
func (s RouteStatus) Fields() []Field {
	return []Field{
		{"link", s.Link}, {"destination", s.Destination.String()}, {"gateway", s.Gateway.String()},
		{"metric", count(uint64(s.Metric))},
	}
}
