package resource

import "machined/hal"

// LeaseRoute is a route that came with a lease.
type LeaseRoute struct {
	Destination hal.Prefix
	Gateway     hal.Address // Len 0 for a route to the link itself
}

// MaxLeaseRoutes bounds the routes that are taken from one lease.
const MaxLeaseRoutes = 16

// LeaseStatus is how DHCPv4 (RFC 2131) stands on a link, and what was granted.
type LeaseStatus struct {
	Link  string
	State string // INIT, SELECTING, REQUESTING, BOUND, RENEWING, REBINDING, INIT-REBOOT, REBOOTING
	// Address is absent when nothing is granted; then so is the rest.
	Address hal.Prefix
	Server  hal.Address
	// Routes holds the first RouteCount routes: those of option 121 (RFC
	// 3442), or else that of option 3.
	Routes     [MaxLeaseRoutes]LeaseRoute
	RouteCount uint8
	MTU        uint32 // bytes (option 26), 0 for none
	Hostname   string // option 12
	// Lists with a space between: options 6, 119 or 15, and 42.
	Nameservers, Search, TimeServers string
	// ExpiresNS is when the address must be given up, in nanoseconds since
	// boot.
	ExpiresNS int64
	Trouble   string // what went wrong last, "" when nothing did
}

func (LeaseStatus) Kind() Kind { return LeaseStatusKind }
func (s LeaseStatus) Key() Key { return Named(s.Link) }

// Fields implements Resource.
func (s LeaseStatus) Fields() []Field {
	fields := []Field{{"link", s.Link}, {"state", s.State}, {"address", s.Address.String()}}
	if s.Address.Address.Len == 0 {
		return append(fields, Field{"trouble", s.Trouble})
	}
	var routes string
	for i, r := range s.Routes[:s.RouteCount] {
		if i > 0 {
			routes += " "
		}
		routes += r.Destination.String() + ">" + r.Gateway.String()
	}
	return append(fields,
		Field{"server", s.Server.String()}, Field{"routes", routes}, Field{"mtu", count(uint64(s.MTU))},
		Field{"hostname", s.Hostname}, Field{"nameservers", s.Nameservers}, Field{"search", s.Search},
		Field{"time_servers", s.TimeServers}, Field{"expires_after_boot", seconds(s.ExpiresNS)}, Field{"trouble", s.Trouble})
}
