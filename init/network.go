package main

import (
	"context"
	"slices"
	"sync"

	"machined/hal"
	"machined/hal/linux"
	"machined/init/config"
	"machined/reconcile/resource"
)

const (
	// dhcpMetric leaves room for routes of the config that should win.
	dhcpMetric = 1024
	loopback   = "lo"
)

// network brings the links of the config up, and publishes what it sees. Its
// methods belong to the loop, save where they say otherwise.
type network struct {
	links  hal.Links
	out    *published
	say    func(format string, args ...any)
	spawn  func(name string, run func())
	kick   func()
	config config.Network
	// lease keeps a lease on a link until its context ends.
	lease func(ctx context.Context, link string, granted func(*lease), failed func(error))
	// resolvConf is the file for the resolver; /etc/resolv.conf leads to it.
	resolvConf string

	configured map[string]uint32 // link name → index that was configured
	leases     map[string]lease  // link name → lease that is applied
	cancels    map[string]context.CancelFunc
	troubles   map[string]string // link name → last trouble, said once
	resolver   bool              // resolvConf has what is known

	mu      sync.Mutex
	granted map[string]*lease // leases that wait for the loop; nil: expired
	failed  map[string]error
}

func newNetwork(links hal.Links, out *published, cfg config.Network) *network {
	return &network{
		links: links, out: out, config: cfg,
		// Without a word of the config, what the resident start knew by DHCP
		// stays until there is news.
		resolver:   len(cfg.Nameservers)+len(cfg.Search) == 0,
		configured: make(map[string]uint32), leases: make(map[string]lease),
		cancels: make(map[string]context.CancelFunc), troubles: make(map[string]string),
		granted: make(map[string]*lease), failed: make(map[string]error),
	}
}

// step configures the links that have appeared and publishes the statuses.
func (n *network) step() {
	links, err := n.links.List()
	if err != nil {
		n.trouble("", err)
		return
	}
	delete(n.troubles, "")
	n.forget(links)
	for _, l := range links {
		if index, done := n.configured[l.Name]; done && index == l.Index {
			continue
		}
		if err := n.configure(l); err != nil {
			n.trouble(l.Name, err)
			continue
		}
		n.configured[l.Name] = l.Index
		delete(n.troubles, l.Name)
	}
	n.takeLeases(links)
	n.resolve()
	n.publish()
}

// forget drops what was known of links that are gone, so that one which comes
// back is configured anew.
func (n *network) forget(links []hal.Link) {
	there := func(name string, index uint32) bool {
		return slices.ContainsFunc(links, func(l hal.Link) bool { return l.Name == name && (l.Index == index || index == 0) })
	}
	for name := range n.troubles {
		if name != resolverTrouble && !there(name, 0) {
			delete(n.troubles, name)
		}
	}
	for name, index := range n.configured {
		if there(name, index) {
			continue
		}
		n.say("%s is gone.", name)
		delete(n.configured, name)
		delete(n.troubles, name)
		n.drop(name)
		n.stopDHCP(name)
	}
}

// drop forgets the lease of a link.
func (n *network) drop(link string) {
	delete(n.leases, link)
	n.resolver = false
}

// configure applies the config of one link. What is there already stays.
func (n *network) configure(l hal.Link) error {
	if l.Name == loopback {
		return n.links.SetUp(l.Index, true)
	}
	i := slices.IndexFunc(n.config.Interfaces, func(c config.Interface) bool { return c.Name == l.Name })
	if i < 0 {
		if !l.Wired {
			return nil
		}
		// A wired link that the config does not name gets its address by DHCP.
		return n.configureAs(l, config.Interface{Name: l.Name, Up: true, DHCP4: true})
	}
	return n.configureAs(l, n.config.Interfaces[i])
}

func (n *network) configureAs(l hal.Link, c config.Interface) error {
	if c.MTU != 0 && c.MTU != l.MTU {
		if err := n.links.SetMTU(l.Index, c.MTU); err != nil {
			return err
		}
	}
	if err := n.links.SetUp(l.Index, c.Up); err != nil {
		return err
	}
	if !c.Up {
		return nil
	}
	for _, a := range c.Addresses {
		if err := n.links.AddAddress(l.Index, linux.PrefixFrom(a)); err != nil {
			return err
		}
	}
	for _, r := range c.Routes {
		route := hal.Route{Link: l.Index, Destination: linux.PrefixFrom(r.To), Gateway: linux.AddressFrom(r.Via), Metric: r.Metric}
		if err := n.links.AddRoute(route); err != nil {
			return err
		}
	}
	if !l.Up {
		n.say("%s is up.", l.Name)
	}
	if c.DHCP4 {
		n.startDHCP(l.Name)
	}
	return nil
}

func (n *network) startDHCP(link string) {
	if n.cancels[link] != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancels[link] = cancel
	// What comes after the end is about another link, if one of that name is
	// there at all.
	report := func(note func()) {
		n.mu.Lock()
		if ctx.Err() == nil {
			note()
		}
		n.mu.Unlock()
		n.kick()
	}
	n.spawn("dhcp "+link, func() {
		n.lease(ctx, link, func(l *lease) {
			report(func() {
				n.granted[link] = l
				delete(n.failed, link)
			})
		}, func(err error) { report(func() { n.failed[link] = err }) })
	})
}

func (n *network) stopDHCP(link string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if cancel := n.cancels[link]; cancel != nil {
		cancel()
	}
	delete(n.cancels, link)
	delete(n.granted, link)
	delete(n.failed, link)
}

// takeLeases applies the leases that DHCP brought since the last step.
func (n *network) takeLeases(links []hal.Link) {
	n.mu.Lock()
	granted, failed := n.granted, n.failed
	n.granted, n.failed = make(map[string]*lease), make(map[string]error)
	n.mu.Unlock()
	for name, err := range failed {
		n.trouble(name, err)
	}
	for name, l := range granted {
		i := slices.IndexFunc(links, func(l hal.Link) bool { return l.Name == name })
		if i < 0 {
			continue
		}
		if err := n.applyLease(links[i], l); err != nil {
			n.trouble(name, err)
			n.putBack(name, l)
			continue
		}
		if failed[name] == nil {
			delete(n.troubles, name)
		}
	}
}

// putBack keeps a lease that could not be applied for the next step, unless a
// newer one is there: the server's next word may be hours away.
func (n *network) putBack(link string, l *lease) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, newer := n.granted[link]; !newer {
		n.granted[link] = l
	}
}

// applyLease replaces the link's lease by l; nil only takes the old one away.
func (n *network) applyLease(link hal.Link, l *lease) error {
	old, had := n.leases[link.Name]
	if had && (l == nil || old.address != l.address) {
		if err := n.links.RemoveAddress(link.Index, old.address); err != nil {
			return err
		}
		n.drop(link.Name)
		n.say("%s lost its lease of %s.", link.Name, linux.FormatPrefix(old.address))
	}
	if l == nil {
		return nil
	}
	if l.mtu != 0 && l.mtu != link.MTU && !n.hasMTU(link.Name) {
		if err := n.links.SetMTU(link.Index, l.mtu); err != nil {
			n.trouble(link.Name, err) // the lease is of use all the same
		}
	}
	present, err := n.links.Addresses(link.Index)
	if err != nil {
		return err
	}
	if err := n.links.AddAddress(link.Index, l.address); err != nil {
		return err
	}
	if l.gateway.Len != 0 {
		if err := n.setGateway(link.Index, l.gateway); err != nil {
			return err
		}
	}
	n.leases[link.Name] = *l
	n.resolver = false
	if !slices.Contains(present, l.address) {
		via := "no gateway"
		if l.gateway.Len != 0 {
			via = "gateway " + linux.FormatAddress(l.gateway)
		}
		n.say("%s has the address %s by DHCP, %s.", link.Name, linux.FormatPrefix(l.address), via)
	}
	return nil
}

// hasMTU reports whether the config names the link's MTU: it wins over that of
// a lease.
func (n *network) hasMTU(link string) bool {
	return slices.ContainsFunc(n.config.Interfaces, func(c config.Interface) bool { return c.Name == link && c.MTU != 0 })
}

// setGateway makes the link's default route by DHCP lead to gateway, and no
// longer to that of an earlier lease.
func (n *network) setGateway(link uint32, gateway hal.Address) error {
	route := hal.Route{
		Link: link, Destination: hal.Prefix{Address: hal.Address{Len: 4}}, Gateway: gateway,
		// Two routes of one metric exclude each other: a link each.
		Metric: dhcpMetric + link,
	}
	routes, err := n.links.Routes()
	if err != nil {
		return err
	}
	for _, r := range routes {
		if r.Link == link && r.Destination == route.Destination && r.Metric == route.Metric && r.Gateway != gateway {
			if err := n.links.RemoveRoute(r); err != nil {
				return err
			}
		}
	}
	return n.links.AddRoute(route)
}

// trouble says what is wrong with a link, once until it changes.
func (n *network) trouble(link string, err error) {
	if n.troubles[link] != err.Error() {
		n.troubles[link] = err.Error()
		n.say("%v; trying again.", err)
	}
}

func (n *network) publish() {
	links, err := n.links.List()
	if err != nil {
		return
	}
	var linkStatus, addressStatus, routeStatus []resource.Resource
	names := make(map[uint32]string)
	for _, l := range links {
		names[l.Index] = l.Name
		linkStatus = append(linkStatus, resource.LinkStatus{Name: l.Name, Up: l.Up, MTU: l.MTU, MAC: l.MAC})
		addresses, _ := n.links.Addresses(l.Index)
		for _, a := range addresses {
			addressStatus = append(addressStatus, resource.AddressStatus{Link: l.Name, Address: linux.FormatPrefix(a)})
		}
	}
	routes, _ := n.links.Routes()
	for _, r := range routes {
		routeStatus = append(routeStatus, resource.RouteStatus{
			Link: names[r.Link], Destination: linux.FormatPrefix(r.Destination),
			Gateway: linux.FormatAddress(r.Gateway), Metric: r.Metric,
		})
	}
	n.out.set(resource.LinkStatusKind, linkStatus)
	n.out.set(resource.AddressStatusKind, addressStatus)
	n.out.set(resource.RouteStatusKind, routeStatus)
}
