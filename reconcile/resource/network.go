package resource

import "strconv"

// LinkStatus is a network interface as observed.
type LinkStatus struct {
	Name string
	Up   bool
	MTU  uint32 // bytes
	MAC  [6]byte
}

func (LinkStatus) Kind() Kind   { return LinkStatusKind }
func (s LinkStatus) ID() string { return s.Name }

// Fields implements Resource.
func (s LinkStatus) Fields() []Field {
	return []Field{
		{"name", s.Name},
		{"up", strconv.FormatBool(s.Up)},
		{"mtu", strconv.FormatUint(uint64(s.MTU), 10)},
		{"mac", formatMAC(s.MAC)},
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
	Address string // address/bits
}

func (AddressStatus) Kind() Kind   { return AddressStatusKind }
func (s AddressStatus) ID() string { return s.Link + "/" + s.Address }

// Fields implements Resource.
func (s AddressStatus) Fields() []Field {
	return []Field{{"link", s.Link}, {"address", s.Address}}
}

// RouteStatus is a route of the main table as observed.
type RouteStatus struct {
	Link        string
	Destination string // address/bits
	Gateway     string // empty for a route to the link itself
	Metric      uint32
}

func (RouteStatus) Kind() Kind { return RouteStatusKind }

// ID tells routes to one destination apart by link and metric, as the kernel
// does.
func (s RouteStatus) ID() string {
	return s.Destination + "@" + s.Link + "#" + strconv.FormatUint(uint64(s.Metric), 10)
}

// Fields implements Resource.
func (s RouteStatus) Fields() []Field {
	return []Field{{"link", s.Link}, {"destination", s.Destination}, {"gateway", s.Gateway}}
}
