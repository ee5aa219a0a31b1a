// Package network holds the controllers of links, addresses, routes, the host
// name and the resolver.
//
// Config turns the machine config, and what is there without a word of it, into
// specs; DHCP adds those of its leases. Apply makes the specs real, and Observe
// publishes what the kernel says, so that drift is seen and repaired.
package network

import (
	"time"

	"machined/hal"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// Settings are the network part of the machine config.
type Settings struct {
	Hostname   string // "" leaves it to DHCP
	Interfaces []Interface
	// Nameservers and Search have a space between their words. What is not
	// said here, DHCP says.
	Nameservers, Search string
}

// Interface is one link of the config.
type Interface struct {
	Name      string
	Up        bool
	MTU       uint32 // bytes; 0 leaves it to DHCP or the driver
	DHCP4     bool
	AcceptRA  bool
	Addresses []hal.Prefix
	Routes    []Route
}

// Route is a route of the config.
type Route struct {
	Destination hal.Prefix
	Gateway     hal.Address
	Metric      uint32
}

// Loopback is the name of the loopback link.
const Loopback = "lo"

// Config makes specs of the settings. A wired link that they do not name is
// brought up and gets its addresses by DHCP and router advertisements.
type Config struct {
	// Settings returns the present ones; they moved when MachineConfig did.
	Settings func() *Settings
}

func (*Config) Spec() reconcile.Spec {
	return reconcile.Spec{
		Name:   "network-config",
		Inputs: []resource.Kind{resource.MachineConfigKind, resource.LinkStatusKind, resource.LeaseStatusKind},
		Outputs: []reconcile.Output{
			{Kind: resource.LinkSpecKind},
			{Kind: resource.AddressSpecKind, Shared: true}, {Kind: resource.RouteSpecKind, Shared: true},
		},
	}
}

func (c *Config) Reconcile(r *reconcile.Run) error {
	s := r.Store
	s.LinkSpecs.Begin()
	s.AddressSpecs.Begin()
	s.RouteSpecs.Begin()
	settings := c.Settings()
	var failed error
	for i := range settings.Interfaces {
		failed = reconcile.First(failed, c.want(r, &settings.Interfaces[i]))
	}
	for i := 0; i < s.Links.Len(); i++ {
		l, _ := s.Links.At(i)
		if s.LinkSpecs.Marked(resource.Named(l.Name)) || l.Index == 0 {
			continue
		}
		switch {
		case l.Loopback:
			failed = reconcile.First(failed, s.LinkSpecs.Put(r.By, resource.LinkSpec{Name: l.Name, Up: true}))
		case l.Wired:
			failed = reconcile.First(failed, c.want(r, &Interface{Name: l.Name, Up: true, DHCP4: true, AcceptRA: true}))
		}
	}
	s.LinkSpecs.Sweep(r.By)
	s.AddressSpecs.Sweep(r.By)
	s.RouteSpecs.Sweep(r.By)
	return failed
}

// minMTU6 is the least MTU of a link with IPv6 (RFC 8200, section 5), in bytes. Below
// it the kernel takes IPv6 from the link, with all addresses.
const minMTU6 = 1280

// ipv6 reports whether an interface is to have IPv6 addresses.
func ipv6(i *Interface) bool {
	if i.AcceptRA {
		return true
	}
	for _, a := range i.Addresses {
		if a.Address.Len == 16 {
			return true
		}
	}
	return false
}

// want writes the specs of one link.
func (c *Config) want(r *reconcile.Run, i *Interface) error {
	mtu := i.MTU
	if lease, _, ok := r.Store.Leases.Get(resource.Named(i.Name)); ok && mtu == 0 && (lease.MTU >= minMTU6 || !ipv6(i)) {
		mtu = lease.MTU
	}
	failed := r.Store.LinkSpecs.Put(r.By, resource.LinkSpec{
		Name: i.Name, Up: i.Up, MTU: mtu, DHCP4: i.Up && i.DHCP4, AcceptRA: i.Up && i.AcceptRA,
	})
	if !i.Up {
		return failed
	}
	for _, a := range i.Addresses {
		failed = reconcile.First(failed, r.Store.AddressSpecs.Put(r.By, resource.AddressSpec{Link: i.Name, Address: a}))
	}
	for _, route := range i.Routes {
		failed = reconcile.First(failed, r.Store.RouteSpecs.Put(r.By, resource.RouteSpec{
			Link: i.Name, Destination: route.Destination.Masked(), Gateway: route.Gateway, Metric: route.Metric,
		}))
	}
	return failed
}

// Observe publishes the links, addresses and routes of the kernel. A link that
// a spec names and that is not there is published as absent.
type Observe struct{ Links hal.Links }

// observeEvery bounds what a change costs that the kernel did not tell of.
const observeEvery = time.Minute

func (o *Observe) Spec() reconcile.Spec {
	return reconcile.Spec{
		Name:     "network-observe",
		Inputs:   []resource.Kind{resource.LinkSpecKind},
		External: []func() uint64{o.Links.Changes},
		Interval: observeEvery,
		Outputs: []reconcile.Output{
			{Kind: resource.LinkStatusKind}, {Kind: resource.AddressStatusKind}, {Kind: resource.RouteStatusKind},
		},
	}
}

func (o *Observe) Reconcile(r *reconcile.Run) error {
	links, err := o.Links.List()
	if err != nil {
		return err
	}
	return reconcile.First(reconcile.First(o.links(r, links), o.addresses(r, links)), o.routes(r, links))
}

func (o *Observe) links(r *reconcile.Run, links []hal.Link) error {
	s := r.Store
	var failed error
	s.Links.Begin()
	for _, l := range links {
		failed = reconcile.First(failed, s.Links.Put(r.By, resource.LinkStatus{
			Name: l.Name, Index: l.Index, Up: l.Up, Carrier: l.Carrier, Wired: l.Wired, Loopback: l.Loopback, MTU: l.MTU, MAC: l.MAC,
		}))
	}
	for i := 0; i < s.LinkSpecs.Len(); i++ {
		spec, meta := s.LinkSpecs.At(i)
		if meta.Phase == reconcile.Running && !s.Links.Marked(spec.Key()) {
			failed = reconcile.First(failed, s.Links.Put(r.By, resource.LinkStatus{Name: spec.Name}))
		}
	}
	s.Links.Sweep(r.By)
	return failed
}

func (o *Observe) addresses(r *reconcile.Run, links []hal.Link) error {
	t := &r.Store.Addresses
	var failed error
	t.Begin()
	for _, l := range links {
		addresses, err := o.Links.Addresses(l.Index)
		if err != nil {
			return err
		}
		for _, a := range addresses {
			failed = reconcile.First(failed, t.Put(r.By, resource.AddressStatus{Link: l.Name, Address: a}))
		}
	}
	t.Sweep(r.By)
	return failed
}

func (o *Observe) routes(r *reconcile.Run, links []hal.Link) error {
	routes, err := o.Links.Routes()
	if err != nil {
		return err
	}
	t := &r.Store.Routes
	var failed error
	t.Begin()
	for _, route := range routes {
		failed = reconcile.First(failed, t.Put(r.By, resource.RouteStatus{
			Link: nameOf(links, route.Link), Destination: route.Destination, Gateway: route.Gateway, Metric: route.Metric,
		}))
	}
	t.Sweep(r.By)
	return failed
}

func nameOf(links []hal.Link, index uint32) string {
	for _, l := range links {
		if l.Index == index {
			return l.Name
		}
	}
	return ""
}
