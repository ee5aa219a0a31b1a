package main

import (
	"fmt"
	"slices"
	"strings"

	"machined/hal"
	"machined/hal/fake"
	"machined/reconcile/network"
	"machined/reconcile/resource"
)

// verdict is what is not as it should be, "" for nothing, and the controllers
// that may have an error, or must.
type verdict struct {
	missing string
	may     map[string]bool
	must    map[string]bool
}

func (v *verdict) miss(format string, args ...any) {
	if v.missing == "" {
		v.missing = fmt.Sprintf(format, args...)
	}
}

// wish is what the config wants of a card that is there; nil for nothing.
func (w *world) wish(n *nic) *network.Interface {
	for _, i := range w.node.settings.Network.Interfaces {
		if i.Name == n.name {
			return &i
		}
	}
	switch {
	case n.loop:
		return &network.Interface{Name: n.name, Up: true}
	case n.wired:
		return &network.Interface{Name: n.name, Up: true, DHCP4: true, AcceptRA: true}
	}
	return nil
}

// judgeNetwork compares the kernel with the config and the DHCP servers.
func (w *world) judgeNetwork(v *verdict) {
	var routes []hal.Route
	for _, n := range w.nics {
		if n.index == 0 {
			continue
		}
		i := w.wish(n)
		l := w.link(n)
		var lease *fake.DHCPServer
		var leased hal.Prefix
		if i != nil {
			if l.Up != i.Up {
				v.miss("%s is up: %v", n.name, l.Up)
			}
			lease, leased = w.judgeLease(v, n, i, l)
			w.judgeLink(v, n, i, l, lease)
		}
		w.judgeAddresses(v, n, i, leased)
		routes = append(routes, w.wantedRoutes(n, i, lease, leased)...)
	}
	w.judgeRoutes(v, routes)
	w.judgeNames(v)
}

// judgeLease returns the server of the lease that a link is to have, and the
// address.
func (w *world) judgeLease(v *verdict, n *nic, i *network.Interface, l hal.Link) (*fake.DHCPServer, hal.Prefix) {
	status, _, there := w.node.store.Leases.Get(resource.Named(n.name))
	if there != (i.Up && i.DHCP4) {
		v.miss("there is a lease status of %s: %v", n.name, there)
	}
	var answering []*fake.DHCPServer
	for _, s := range n.servers {
		if !s.Silent {
			answering = append(answering, s)
		}
	}
	if !i.Up || !i.DHCP4 || !l.Carrier || len(answering) == 0 {
		if status.Address.Address.Len != 0 {
			v.miss("%s still has the lease of %v", n.name, status.Address)
		}
		return nil, hal.Prefix{}
	}
	if !contains([]string{"BOUND", "RENEWING", "REBINDING"}, status.State) {
		v.miss("the lease of %s is %s: %s", n.name, status.State, status.Trouble)
	}
	for _, s := range answering {
		bound := s.Options.Lease == 0 || s.Bound(w.clock.SinceBoot()) == 1
		if s.Address == status.Server && s.First.Contains(status.Address.Address) && bound {
			return s, status.Address
		}
	}
	v.miss("the lease of %s, %v from %v, is no server's", n.name, status.Address, status.Server)
	return nil, status.Address
}

func (w *world) judgeLink(v *verdict, n *nic, i *network.Interface, l hal.Link, lease *fake.DHCPServer) {
	mtu := i.MTU
	if mtu == 0 && lease != nil {
		mtu = lease.Options.MTU
	}
	switch {
	case mtu > 65535:
		v.must["network-apply"] = true
	case mtu != 0 && l.MTU != mtu:
		v.miss("%s has the MTU %d; want %d", n.name, l.MTU, mtu)
	case mtu == 0 && !contains(n.mtus, l.MTU):
		v.miss("%s has the MTU %d; want one of %v", n.name, l.MTU, n.mtus)
	}
	if !i.Up || n.loop {
		return
	}
	want := "0"
	if i.AcceptRA {
		want = "2"
	}
	if got, _ := w.host.Sysctl(raKey(n.name)); got != want {
		v.miss("accept_ra of %s is %s; want %s", n.name, got, want)
	}
}

func (w *world) judgeAddresses(v *verdict, n *nic, i *network.Interface, leased hal.Prefix) {
	want := slices.Clone(n.addresses)
	if i != nil && i.Up {
		want = append(want, i.Addresses...)
		if leased.Address.Len != 0 {
			want = append(want, leased)
		}
	}
	got, _ := w.links.Addresses(n.index)
	for _, a := range want {
		if !contains(got, a) {
			v.miss("%s does not have %v", n.name, a)
		}
	}
	for _, a := range got {
		if !contains(want, a) && !w.ledger.orphans[a] {
			v.miss("%s has %v", n.name, a)
		}
	}
}

// wantedRoutes returns what the config, the lease and others want, but for the
// routes to the networks of addresses.
func (w *world) wantedRoutes(n *nic, i *network.Interface, lease *fake.DHCPServer, leased hal.Prefix) []hal.Route {
	out := slices.Clone(n.routes)
	if i == nil || !i.Up {
		return out
	}
	for _, r := range i.Routes {
		out = append(out, hal.Route{Link: n.index, Destination: r.Destination, Gateway: r.Gateway, Metric: r.Metric})
	}
	if lease == nil {
		return out
	}
	metric := network.LeaseMetric + n.index
	for _, r := range lease.Options.Routes {
		if !leased.Contains(r.Gateway) {
			out = append(out, hal.Route{Link: n.index, Destination: prefix(r.Gateway, 32), Metric: metric})
		}
		out = append(out, hal.Route{Link: n.index, Destination: r.Destination, Gateway: r.Gateway, Metric: metric})
	}
	return out
}

// judgeRoutes knows what the kernel refuses: routes by a gateway that is on no
// network of the link, and the second of two to one destination.
func (w *world) judgeRoutes(v *verdict, want []hal.Route) {
	got, _ := w.links.Routes()
	var connected []hal.Route
	for _, n := range w.nics {
		addresses, _ := w.links.Addresses(n.index)
		for _, a := range addresses {
			r := hal.Route{Link: n.index, Destination: a.Masked()}
			if a.Address.Len == 16 {
				r.Metric = 256
			}
			connected = append(connected, r)
		}
	}
	for k := range want {
		if want[k].Metric == 0 && want[k].Destination.Address.Len == 16 {
			want[k].Metric = 1024
		}
		r := want[k]
		if contains(got, r) {
			continue
		}
		rival := slices.ContainsFunc(got, func(o hal.Route) bool { return o.Destination == r.Destination && o.Metric == r.Metric })
		reachable := slices.ContainsFunc(got, func(o hal.Route) bool {
			return o.Link == r.Link && o.Gateway.Len == 0 && o.Destination.Contains(r.Gateway)
		})
		if !rival && (reachable || r.Gateway.Len == 0) {
			v.miss("there is no route to %v by %v on link %d", r.Destination, r.Gateway, r.Link)
		}
		v.must["network-apply"] = true
	}
	for _, r := range got {
		stray := resource.RouteSpec{Link: w.nicOf(r.Link).name, Destination: r.Destination, Gateway: r.Gateway, Metric: r.Metric}
		if !contains(want, r) && !contains(connected, r) && !w.ledger.strays[stray] {
			v.miss("there is a route to %v by %v on link %d with metric %d", r.Destination, r.Gateway, r.Link, r.Metric)
		}
	}
}

// judgeNames looks at the host name and the resolver's file.
func (w *world) judgeNames(v *verdict) {
	s := w.node.settings.Network
	names, servers, search := []string{}, s.Nameservers, s.Search
	for i := range w.node.store.Leases.Len() {
		lease, _ := w.node.store.Leases.At(i)
		if lease.Hostname != "" {
			names = append(names, lease.Hostname)
		}
		if s.Nameservers == "" {
			servers = join(servers, lease.Nameservers)
		}
		if s.Search == "" {
			search = join(search, lease.Search)
		}
	}
	switch name, _ := w.host.Hostname(); {
	case s.Hostname != "" && name != s.Hostname, s.Hostname == "" && len(names) > 0 && name != names[0],
		s.Hostname == "" && len(names) == 0 && name != network.DefaultHostname:
		v.miss("the host name is %q", name)
	}
	want := ""
	for _, server := range strings.Fields(servers) {
		want += "nameserver " + server + "\n"
	}
	if search != "" {
		want += "search " + search + "\n"
	}
	if got, _ := w.files.Read(resolverPath); string(got) != want {
		v.miss("the resolver's file is %q; want %q", got, want)
	}
}

// join adds the words that a list does not have yet.
func join(list, more string) string {
	return strings.Join(unique(strings.Fields(list+" "+more)), " ")
}
