package network

import (
	"errors"

	"machined/hal"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// linkError says on which link something failed.
type linkError struct {
	link string
	err  error
}

func (e *linkError) Error() string { return e.link + ": " + e.err.Error() }
func (e *linkError) Unwrap() error { return e.err }

func on(link string, err error) error {
	if err == nil {
		return nil
	}
	return &linkError{link, err}
}

// present returns the status of a link that the kernel has.
func present(s *reconcile.Store, link string) (resource.LinkStatus, bool) {
	l, _, ok := s.Links.Get(resource.Named(link))
	return l, ok && l.Index != 0
}

// gone drops the error of a link that went away since it was observed: the next
// observation tells of it.
func gone(err error) error {
	if errors.Is(err, hal.ErrNoDevice) {
		return nil
	}
	return err
}

// Apply makes link, address and route specs real. A link that is not there yet
// is no error: it is waited for. What no spec names is left alone.
type Apply struct {
	Links hal.Links
	Host  hal.Host

	mtus []driverMTU
}

// driverMTU is what the MTU of a link was before a spec had another.
type driverMTU struct{ index, mtu uint32 }

func (*Apply) Spec() reconcile.Spec {
	return reconcile.Spec{
		Name: "network-apply",
		Inputs: []resource.Kind{
			resource.LinkSpecKind, resource.AddressSpecKind, resource.RouteSpecKind,
			resource.LinkStatusKind, resource.AddressStatusKind, resource.RouteStatusKind,
		},
		Interval: namesEvery, // nothing tells of sysctls
	}
}

// Reconcile takes away before it adds: two routes of one metric exclude each
// other, and a route needs an address of its gateway's network.
func (a *Apply) Reconcile(r *reconcile.Run) error {
	a.forget(r.Store)
	failed := a.links(r)
	// There is always a loopback. Without it nothing has been observed yet, and
	// a link that seems to be gone may have what is to be removed.
	if r.Store.Links.Len() > 0 {
		failed = reconcile.First(failed, a.removeRoutes(r))
		failed = reconcile.First(failed, a.removeAddresses(r))
	}
	failed = reconcile.First(failed, a.addAddresses(r))
	return reconcile.First(failed, a.addRoutes(r))
}

func (a *Apply) links(r *reconcile.Run) error {
	var failed error
	for i := 0; i < r.Store.LinkSpecs.Len(); i++ {
		spec, meta := r.Store.LinkSpecs.At(i)
		l, ok := present(r.Store, spec.Name)
		if !ok || meta.Phase != reconcile.Running {
			continue
		}
		failed = reconcile.First(failed, on(spec.Name, gone(a.mtu(l, spec.MTU))))
		if spec.Up && !l.Loopback {
			failed = reconcile.First(failed, on(spec.Name, gone(a.sysctls(spec))))
		}
		if spec.Up != l.Up {
			failed = reconcile.First(failed, on(spec.Name, gone(a.Links.SetUp(l.Index, spec.Up))))
		}
	}
	return failed
}

// forget drops what is known of links that are gone: one that comes back has
// another index.
func (a *Apply) forget(s *reconcile.Store) {
	kept := a.mtus[:0]
	for _, m := range a.mtus {
		for i := 0; i < s.Links.Len(); i++ {
			if l, _ := s.Links.At(i); l.Index == m.index {
				kept = append(kept, m)
			}
		}
	}
	a.mtus = kept
}

// mtu sets the MTU of a link. With 0 the one comes back that the link had
// before it was set: a lease's MTU goes with the lease.
func (a *Apply) mtu(l resource.LinkStatus, want uint32) error {
	i := 0
	for i < len(a.mtus) && a.mtus[i].index != l.Index {
		i++
	}
	known := i < len(a.mtus)
	restore := want == 0 && known
	if restore {
		want = a.mtus[i].mtu
	}
	// What the store says may be old, and after a restore nobody looks again.
	if want != 0 && (want != l.MTU || restore) {
		if !known {
			a.mtus = append(a.mtus, driverMTU{l.Index, l.MTU})
		}
		if err := a.Links.SetMTU(l.Index, want); err != nil {
			return err
		}
	}
	if restore {
		a.mtus = append(a.mtus[:i], a.mtus[i+1:]...)
	}
	return nil
}

// sysctls sets what the kernel has to know of a link that is up.
func (a *Apply) sysctls(spec resource.LinkSpec) error {
	// Router advertisements are heeded on a node that forwards for its
	// containers, too (the value 2 of the kernel's ip-sysctl.rst), or not at all.
	acceptRA := "0"
	if spec.AcceptRA {
		acceptRA = "2"
	}
	v4, v6 := "net/ipv4/conf/"+spec.Name+"/", "net/ipv6/conf/"+spec.Name+"/"
	failed := a.sysctl(v6+"accept_ra", acceptRA)
	// Of two links, that whose cable was pulled would go on being the way to
	// everything: its lease and its routes stay.
	failed = reconcile.First(failed, a.sysctl(v4+"ignore_routes_with_linkdown", "1"))
	failed = reconcile.First(failed, a.sysctl(v6+"ignore_routes_with_linkdown", "1"))
	// Otherwise the kernel removes all addresses of a network with the first,
	// those of others, too.
	return reconcile.First(failed, a.sysctl(v4+"promote_secondaries", "1"))
}

// sysctl sets one. A kernel without IPv6 has none of its keys.
func (a *Apply) sysctl(key, want string) error {
	value, err := a.Host.Sysctl(key)
	if errors.Is(err, hal.ErrNotFound) || err == nil && value == want {
		return nil
	}
	if err != nil {
		return err
	}
	return a.Host.SetSysctl(key, want)
}

func (a *Apply) removeAddresses(r *reconcile.Run) error {
	return letGo(r, &r.Store.AddressSpecs, func(spec resource.AddressSpec) (string, func(resource.LinkStatus) error) {
		return spec.Link, func(l resource.LinkStatus) error { return a.Links.RemoveAddress(l.Index, spec.Address) }
	})
}

// letGo takes out of the kernel what its owner tears down, and removes the
// finalizers. of returns the link of a spec and what takes the spec off it.
func letGo[T reconcile.Value](r *reconcile.Run, t *reconcile.Table[T], of func(T) (link string, remove func(resource.LinkStatus) error)) error {
	var failed error
	for i := t.Len() - 1; i >= 0; i-- {
		spec, meta := t.At(i)
		if meta.Phase == reconcile.Running {
			continue
		}
		link, remove := of(spec)
		if l, ok := present(r.Store, link); ok {
			if err := gone(remove(l)); err != nil {
				failed = reconcile.First(failed, on(link, err))
				continue
			}
		}
		t.RemoveFinalizer(r.By, spec.Key())
	}
	return failed
}

func (a *Apply) addAddresses(r *reconcile.Run) error {
	var failed error
	t := &r.Store.AddressSpecs
	for i := 0; i < t.Len(); i++ {
		spec, meta := t.At(i)
		if meta.Phase != reconcile.Running {
			continue
		}
		if err := t.AddFinalizer(r.By, spec.Key()); err != nil {
			failed = reconcile.First(failed, err)
		}
		l, ok := present(r.Store, spec.Link)
		if _, _, there := r.Store.Addresses.Get(spec.Key()); there || !ok {
			continue
		}
		failed = reconcile.First(failed, on(spec.Link, gone(a.Links.AddAddress(l.Index, spec.Address))))
	}
	return failed
}

func route(l resource.LinkStatus, spec resource.RouteSpec) hal.Route {
	return hal.Route{Link: l.Index, Destination: spec.Destination, Gateway: spec.Gateway, Metric: spec.Metric}
}

func (a *Apply) removeRoutes(r *reconcile.Run) error {
	return letGo(r, &r.Store.RouteSpecs, func(spec resource.RouteSpec) (string, func(resource.LinkStatus) error) {
		return spec.Link, func(l resource.LinkStatus) error { return a.Links.RemoveRoute(route(l, spec)) }
	})
}

// addRoutes leaves links alone that are down: no route can be there. It comes
// again when that changes.
func (a *Apply) addRoutes(r *reconcile.Run) error {
	var failed error
	t := &r.Store.RouteSpecs
	for i := 0; i < t.Len(); i++ {
		spec, meta := t.At(i)
		if meta.Phase != reconcile.Running {
			continue
		}
		if err := t.AddFinalizer(r.By, spec.Key()); err != nil {
			failed = reconcile.First(failed, err)
		}
		l, ok := present(r.Store, spec.Link)
		if _, _, there := r.Store.Routes.Get(asListed(spec).Key()); there || !ok || !l.Up {
			continue
		}
		failed = reconcile.First(failed, on(spec.Link, gone(a.Links.AddRoute(route(l, spec)))))
	}
	return failed
}

// asListed is a route as the kernel shows it: in IPv6 it makes 1024 of metric 0
// (IP6_RT_PRIO_USER).
func asListed(spec resource.RouteSpec) resource.RouteSpec {
	if spec.Metric == 0 && spec.Destination.Address.Len == 16 {
		spec.Metric = 1024
	}
	return spec
}
