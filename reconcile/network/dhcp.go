package network

import (
	"time"

	"machined/hal"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// LeaseMetric is the metric of routes that came with a lease, and leaves room
// for routes of the config that should win. The link's index is added: two
// routes of one metric exclude each other.
const LeaseMetric = 1024

// DHCP keeps a DHCPv4 lease (RFC 2131) on each link whose spec asks for one,
// and writes its address and routes as specs.
type DHCP struct {
	Client hal.DHCPClient
	Files  hal.Files
	Jobs   hal.Jobs
	// Hostname is the name that servers are told, "" for none.
	Hostname func() string
	// Run is a directory for the leases of this boot: a program that is
	// executed anew goes on where the last one was.
	Run string
	// Keep returns a directory that outlasts a restart, "" while there is
	// none: after one, the last address is asked for again.
	Keep func() string
	// Seed makes transaction numbers and the spread of retries.
	Seed uint64

	links []*lease
}

func (c *DHCP) Spec() reconcile.Spec {
	return reconcile.Spec{
		Name: "dhcp4",
		// A volume may be the place for leases.
		Inputs:   []resource.Kind{resource.LinkSpecKind, resource.LinkStatusKind, resource.VolumeStatusKind},
		External: []func() uint64{c.Client.Received},
		Outputs: []reconcile.Output{
			{Kind: resource.LeaseStatusKind},
			{Kind: resource.AddressSpecKind, Shared: true}, {Kind: resource.RouteSpecKind, Shared: true},
		},
	}
}

func (c *DHCP) Reconcile(r *reconcile.Run) error {
	c.follow(r)
	s := r.Store
	s.Leases.Begin()
	s.AddressSpecs.Begin()
	s.RouteSpecs.Begin()
	var failed error
	for _, l := range c.links {
		failed = reconcile.First(failed, on(l.name, l.step(r.Now)))
		failed = reconcile.First(failed, l.publish(r))
		l.keep(r)
		r.WakeAt(l.deadline)
	}
	s.RouteSpecs.Sweep(r.By)
	s.AddressSpecs.Sweep(r.By)
	s.Leases.Sweep(r.By)
	return failed
}

// follow starts and ends the leases of links that came, changed or went.
func (c *DHCP) follow(r *reconcile.Run) {
	kept := c.links[:0]
	for _, l := range c.links {
		status, there := present(r.Store, l.name)
		same := there && status.Index == l.index && status.MAC == l.mac
		switch {
		case !same: // what is known of it stays, for when it comes back
			c.Client.Close(l.index)
		case !c.wanted(r.Store, l.name):
			l.giveUp()
		default:
			l.see(r.Now, status.Up && status.Carrier)
			kept = append(kept, l)
		}
	}
	clear(c.links[len(kept):])
	c.links = kept
	for i := 0; i < r.Store.LinkSpecs.Len(); i++ {
		spec, _ := r.Store.LinkSpecs.At(i)
		if status, there := present(r.Store, spec.Name); there && c.wanted(r.Store, spec.Name) && !c.has(spec.Name) {
			c.links = append(c.links, c.begin(r.Now, status))
		}
	}
}

// begin starts on a link.
func (c *DHCP) begin(now time.Duration, status resource.LinkStatus) *lease {
	l := &lease{
		dhcp: c, name: status.Name, index: status.Index, mac: status.MAC, carrier: status.Up && status.Carrier, random: c.Seed | 1,
	}
	for _, b := range status.MAC {
		l.random = l.random*0x9e3779b97f4a7c15 + uint64(b) + 1
	}
	l.remember(now)
	return l
}

// wanted reports whether a link is to have a lease.
func (c *DHCP) wanted(s *reconcile.Store, link string) bool {
	spec, meta, ok := s.LinkSpecs.Get(resource.Named(link))
	return ok && meta.Phase == reconcile.Running && spec.DHCP4
}

func (c *DHCP) has(link string) bool {
	for _, l := range c.links {
		if l.name == link {
			return true
		}
	}
	return false
}

// publish writes the lease's status and, while it holds, its specs.
func (l *lease) publish(r *reconcile.Run) error {
	status := resource.LeaseStatus{Link: l.name, State: l.state.String(), Trouble: l.trouble}
	if !l.held {
		return r.Store.Leases.Put(r.By, status)
	}
	m := &l.granted
	status.Address, status.Server, status.MTU, status.Hostname = m.Address, m.Server, m.MTU, m.Hostname
	status.Nameservers, status.TimeServers = addresses(m.Nameservers), addresses(m.TimeServers)
	for _, domain := range m.Search {
		status.Search = addWords(status.Search, domain)
	}
	status.ExpiresNS = int64(l.expireAt)
	for _, route := range m.Routes[:min(len(m.Routes), resource.MaxLeaseRoutes)] {
		status.Routes[status.RouteCount] = resource.LeaseRoute{Destination: route.Destination, Gateway: route.Gateway}
		status.RouteCount++
	}
	failed := r.Store.Leases.Put(r.By, status)
	failed = reconcile.First(failed, r.Store.AddressSpecs.Put(r.By, resource.AddressSpec{Link: l.name, Address: m.Address}))
	metric := LeaseMetric + l.index
	for _, route := range status.Routes[:status.RouteCount] {
		gw := route.Gateway
		if gw == m.Address.Address {
			continue // the kernel takes no gateway that is the host itself
		}
		if gw.Len != 0 && !l.reaches(gw) {
			// The gateway is on the link, in no network of it.
			failed = reconcile.First(failed, r.Store.RouteSpecs.Put(r.By, resource.RouteSpec{
				Link: l.name, Destination: hal.Prefix{Address: gw, Bits: 32}, Metric: metric,
			}))
		}
		failed = reconcile.First(failed, r.Store.RouteSpecs.Put(r.By, resource.RouteSpec{
			Link: l.name, Destination: route.Destination, Gateway: route.Gateway, Metric: metric,
		}))
	}
	return failed
}

// reaches reports whether a gateway is in a network of the lease.
func (l *lease) reaches(gateway hal.Address) bool {
	if l.granted.Address.Contains(gateway) {
		return true
	}
	for _, route := range l.granted.Routes {
		if route.Gateway.Len == 0 && route.Destination.Contains(gateway) {
			return true
		}
	}
	return false
}

func addresses(list []hal.Address) string {
	text := ""
	for _, a := range list {
		text = addWords(text, a.String())
	}
	return text
}

// seconds is a time of a lease; infinity of RFC 2131, 3.3, is far away.
func seconds(n uint32) time.Duration {
	if n == 1<<32-1 {
		return forever
	}
	return time.Duration(n) * time.Second
}

// forever is longer than any node runs, and still adds to a time.
const forever = time.Duration(1 << 61)
