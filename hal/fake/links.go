package fake

import "machined/hal"

// Links is a simulated hal.Links with the manners of the kernel's IPv4 and
// IPv6: an address brings the route of its network, routes go with their link.
type Links struct {
	Faults
	links  []link
	routes []hal.Route
	last   uint32 // index that was given last
	moves  uint64
}

// Changes implements hal.Links.
func (l *Links) Changes() uint64 { return l.moves }

type link struct {
	hal.Link
	addresses []hal.Prefix
}

const (
	minMTU, maxMTU = 68, 65535
	// ipv6Metric is what the kernel makes of metric 0 in IPv6 (IP6_RT_PRIO_USER).
	ipv6Metric = 1024
	// connectedMetric6 is that of an IPv6 address's own network (IP6_RT_PRIO_ADDRCONF).
	connectedMetric6 = 256
)

// Add makes a link appear and returns its index, which is given here.
func (l *Links) Add(added hal.Link) uint32 {
	l.last++
	l.moves++
	added.Index = l.last
	if added.MTU == 0 {
		added.MTU = 1500
	}
	l.links = append(l.links, link{Link: added})
	return added.Index
}

// Remove makes a link disappear, and with it its addresses and routes.
func (l *Links) Remove(index uint32) {
	l.moves++
	kept := l.links[:0]
	for _, other := range l.links {
		if other.Index != index {
			kept = append(kept, other)
		}
	}
	l.links = kept
	l.dropRoutes(func(r hal.Route) bool { return r.Link == index })
}

// SetCarrier plugs the cable in or pulls it.
func (l *Links) SetCarrier(index uint32, carrier bool) {
	if found := l.find(index); found != nil {
		found.Carrier = carrier
		l.moves++
	}
}

// List implements hal.Links.
func (l *Links) List() ([]hal.Link, error) {
	if err := l.failing("List"); err != nil {
		return nil, err
	}
	links := make([]hal.Link, 0, len(l.links))
	for _, found := range l.links {
		links = append(links, found.Link)
	}
	return links, nil
}

// SetUp implements hal.Links.
func (l *Links) SetUp(index uint32, up bool) error {
	found, err := l.at("SetUp", index)
	if err != nil || found.Up == up {
		return err
	}
	found.Up = up
	l.moves++
	if up {
		for _, a := range found.addresses {
			l.addConnected(index, a)
		}
		return nil
	}
	l.dropRoutes(func(r hal.Route) bool { return r.Link == index })
	return nil
}

// SetMTU implements hal.Links.
func (l *Links) SetMTU(index, mtu uint32) error {
	found, err := l.at("SetMTU", index)
	if err != nil {
		return err
	}
	if mtu < minMTU || mtu > maxMTU {
		return hal.ErrInvalid
	}
	if found.MTU != mtu {
		found.MTU = mtu
		l.moves++
	}
	return nil
}

// AddAddress implements hal.Links.
func (l *Links) AddAddress(index uint32, p hal.Prefix) error {
	found, err := l.at("AddAddress", index)
	if err != nil {
		return err
	}
	if !valid(p) {
		return hal.ErrInvalid
	}
	for _, a := range found.addresses {
		if a == p {
			return nil
		}
	}
	found.addresses = append(found.addresses, p)
	l.moves++
	if found.Up {
		l.addConnected(index, p)
	}
	return nil
}

// RemoveAddress implements hal.Links.
func (l *Links) RemoveAddress(index uint32, p hal.Prefix) error {
	found, err := l.at("RemoveAddress", index)
	if err != nil {
		return err
	}
	kept := found.addresses[:0]
	for _, a := range found.addresses {
		if a != p {
			kept = append(kept, a)
		}
	}
	if len(kept) == len(found.addresses) {
		return nil
	}
	l.moves++
	found.addresses = kept
	shared, last := false, p.Address.Len == 4
	for _, a := range kept {
		shared = shared || a.Masked() == p.Masked()
		last = last && a.Address.Len != 4
	}
	// With its last IPv4 address a link loses all routes of IPv4. Otherwise
	// those stay that go by a gateway in the network which is gone.
	l.dropRoutes(func(r hal.Route) bool {
		connected := r.Destination == p.Masked() && r.Gateway.Len == 0 && !shared
		return r.Link == index && (connected || last && r.Destination.Address.Len == 4)
	})
	return nil
}

// Addresses implements hal.Links.
func (l *Links) Addresses(index uint32) ([]hal.Prefix, error) {
	if err := l.failing("Addresses"); err != nil {
		return nil, err
	}
	found := l.find(index)
	if found == nil {
		return nil, nil
	}
	return append([]hal.Prefix(nil), found.addresses...), nil
}

// at is the start of a call that changes a link.
func (l *Links) at(method string, index uint32) (*link, error) {
	if err := l.failing(method); err != nil {
		return nil, err
	}
	found := l.find(index)
	if found == nil {
		return nil, hal.ErrNoDevice
	}
	return found, nil
}

func (l *Links) find(index uint32) *link {
	for i := range l.links {
		if l.links[i].Index == index {
			return &l.links[i]
		}
	}
	return nil
}

var _ hal.Links = (*Links)(nil)
