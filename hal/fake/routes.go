package fake

import "machined/hal"

// AddRoute implements hal.Links.
func (l *Links) AddRoute(r hal.Route) error {
	found, err := l.at("AddRoute", r.Link)
	if err != nil {
		return err
	}
	r = asListed(r)
	switch {
	case !valid(r.Destination) || r.Destination.Masked() != r.Destination:
		return hal.ErrInvalid
	case !found.Up:
		return ErrDown
	case r.Gateway.Len > 0 && !found.reaches(r.Gateway) && !l.routedDirectly(r.Link, r.Gateway):
		return ErrUnreachable
	}
	for _, other := range l.routes {
		if other == r {
			return nil
		}
		if other.Destination == r.Destination && other.Metric == r.Metric {
			return hal.ErrExists
		}
	}
	l.routes = append(l.routes, r)
	l.moves++
	return nil
}

// RemoveRoute implements hal.Links.
func (l *Links) RemoveRoute(r hal.Route) error {
	if err := l.failing("RemoveRoute"); err != nil {
		return err
	}
	r = asListed(r)
	l.dropRoutes(func(other hal.Route) bool { return other == r })
	return nil
}

// Routes implements hal.Links.
func (l *Links) Routes() ([]hal.Route, error) {
	if err := l.failing("Routes"); err != nil {
		return nil, err
	}
	return append([]hal.Route(nil), l.routes...), nil
}

// asListed is r as the kernel shows it.
func asListed(r hal.Route) hal.Route {
	if r.Metric == 0 && r.Destination.Address.Len == 16 {
		r.Metric = ipv6Metric
	}
	return r
}

func (l *Links) addConnected(index uint32, p hal.Prefix) {
	r := hal.Route{Link: index, Destination: p.Masked()}
	if p.Address.Len == 16 {
		r.Metric = connectedMetric6
	} else if p.Bits == 32 {
		return // an IPv4 host address has no network of its own
	}
	for _, other := range l.routes {
		if other == r {
			return
		}
	}
	l.routes = append(l.routes, r)
}

func (l *Links) dropRoutes(drop func(hal.Route) bool) {
	kept := l.routes[:0]
	for _, r := range l.routes {
		if !drop(r) {
			kept = append(kept, r)
		}
	}
	if len(kept) != len(l.routes) {
		l.moves++
	}
	l.routes = kept
}

// reaches reports whether a gateway is on a network of the link.
func (l *link) reaches(gateway hal.Address) bool {
	for _, a := range l.addresses {
		if a.Contains(gateway) {
			return true
		}
	}
	return false
}

func valid(p hal.Prefix) bool {
	n := p.Address.Len
	return (n == 4 || n == 16) && int(p.Bits) <= 8*int(n)
}

// has reports whether an address is one of the link's own.
func (l *link) has(a hal.Address) bool {
	for _, own := range l.addresses {
		if own.Address == a {
			return true
		}
	}
	return false
}

// routedDirectly reports whether a route says that an address is on the link.
func (l *Links) routedDirectly(index uint32, to hal.Address) bool {
	for _, r := range l.routes {
		if r.Link == index && r.Gateway.Len == 0 && r.Destination.Contains(to) {
			return true
		}
	}
	return false
}

// routed reports whether a route of the link leads to an address.
func (l *Links) routed(index uint32, to hal.Address) bool {
	for _, r := range l.routes {
		if r.Link == index && r.Destination.Contains(to) {
			return true
		}
	}
	return false
}
