package conformance

import (
	"errors"

	"machined/hal"
	"machined/reconcile"
	"machined/reconcile/resource"
)

func storeCases() []Case {
	return []Case{
		{"store: create, get, update and destroy", storeLife},
		{"store: an update needs the present version", storeConflict},
		{"store: a value that says the same is no change", storeEqual},
		{"store: only the owner writes", storeOwner},
		{"store: only declared outputs are written", storeOutputs},
		{"store: exclusive outputs name both writers", storeExclusive},
		{"store: a finalizer holds a resource back", storeFinalizer},
		{"store: what tears down can be wanted again", storeRevived},
		{"store: a sweep takes what was not put", storeSweep},
		{"store: the resources of a writer go with it", storeUnregister},
		{"store: a writer that goes lets go", storeLetsGo},
		{"store: a table is bounded", storeFull},
		{"watch: a snapshot, then changes", watchChanges},
		{"watch: a slow watcher is told what it lost", watchLost},
		{"watch: overtaken changes are left out", watchOvertaken},
	}
}

// newStore returns a store and a writer of links and of shared addresses.
func newStore(t T) (*reconcile.Store, reconcile.Owner) {
	s := reconcile.NewStore(nil)
	by, err := s.Register("writer",
		reconcile.Output{Kind: resource.LinkStatusKind}, reconcile.Output{Kind: resource.AddressSpecKind, Shared: true})
	expect(t, "Register", err, nil)
	return s, by
}

func link(name string, mtu uint32) resource.LinkStatus {
	return resource.LinkStatus{Name: name, MTU: mtu}
}

func storeLife(t T) {
	s, by := newStore(t)
	first, err := s.Links.Create(by, link("eth0", 1500))
	expect(t, "Create(eth0)", err, nil)
	_, err = s.Links.Create(by, link("eth0", 1500))
	expect(t, "Create(eth0) again", err, hal.ErrExists)
	second, err := s.Links.Update(by, link("eth0", 9000), first)
	expect(t, "Update(eth0)", err, nil)
	check(t, second > first, "a version grows")
	got, meta, ok := s.Links.Get(resource.Named("eth0"))
	check(t, ok && got.MTU == 9000 && meta.Version == second && meta.Owner == by, "Get returns what was written last")
	_, err = s.Links.Update(by, link("eth1", 1500), 1)
	expect(t, "Update(eth1)", err, hal.ErrNotFound)
	expect(t, "Destroy(eth0)", s.Links.Destroy(by, resource.Named("eth0")), nil)
	expect(t, "Destroy(eth0) again", s.Links.Destroy(by, resource.Named("eth0")), hal.ErrNotFound)
	check(t, s.Links.Len() == 0, "the table is empty")
}

func storeConflict(t T) {
	s, by := newStore(t)
	version, _ := s.Links.Create(by, link("eth0", 1500))
	_, err := s.Links.Update(by, link("eth0", 1400), version)
	expect(t, "Update", err, nil)
	_, err = s.Links.Update(by, link("eth0", 1300), version)
	expect(t, "Update with an old version", err, reconcile.ErrConflict)
	sameText(t, "its text", err.Error(), "update LinkStatus eth0: the resource was changed meanwhile")
	got, _, _ := s.Links.Get(resource.Named("eth0"))
	check(t, got.MTU == 1400, "a refused update changes nothing")
}

func storeEqual(t T) {
	s, by := newStore(t)
	version, _ := s.Links.Create(by, link("eth0", 1500))
	moves := s.Moves()
	again, err := s.Links.Update(by, link("eth0", 1500), version)
	expect(t, "Update", err, nil)
	expect(t, "Put", s.Links.Put(by, link("eth0", 1500)), nil)
	check(t, again == version && s.Moves() == moves, "an equal value moves nothing")
}

func storeOwner(t T) {
	s, by := newStore(t)
	other, err := s.Register("other", reconcile.Output{Kind: resource.AddressSpecKind, Shared: true})
	expect(t, "Register(other)", err, nil)
	mine := resource.AddressSpec{Link: "eth0", Address: hal.Prefix{Address: hal.Address{Len: 4, Bytes: [16]byte{10, 0, 0, 1}}, Bits: 8}}
	expect(t, "Put", s.AddressSpecs.Put(by, mine), nil)
	expect(t, "Put by another", s.AddressSpecs.Put(other, mine), reconcile.ErrOwner)
	expect(t, "Destroy by another", s.AddressSpecs.Destroy(other, mine.Key()), reconcile.ErrOwner)
	_, err = s.AddressSpecs.Teardown(other, mine.Key())
	expect(t, "Teardown by another", err, reconcile.ErrOwner)
	_, err = s.AddressSpecs.Update(other, mine, 1)
	expect(t, "Update by another", err, reconcile.ErrOwner)
}

func storeOutputs(t T) {
	s, by := newStore(t)
	expect(t, "Put of another kind", s.Volumes.Put(by, resource.VolumeStatus{Name: "STATE"}), reconcile.ErrOutput)
	expect(t, "Put by nobody", s.Links.Put(0, link("eth0", 1500)), reconcile.ErrOutput)
}

func storeExclusive(t T) {
	s, _ := newStore(t)
	_, err := s.Register("greedy", reconcile.Output{Kind: resource.LinkStatusKind})
	expect(t, "Register(greedy)", err, reconcile.ErrOutputs)
	sameText(t, "its text", err.Error(), `"greedy" cannot write LinkStatus: "writer" writes it, and one of the two asks to be the only one`)
	_, err = s.Register("greedy", reconcile.Output{Kind: resource.AddressSpecKind})
	expect(t, "Register of a shared kind alone", err, reconcile.ErrOutputs)
	_, err = s.Register("greedy", reconcile.Output{Kind: resource.AddressSpecKind, Shared: true})
	expect(t, "Register of a shared kind", err, nil)
	_, err = s.Register("greedy")
	expect(t, "Register of the same name", err, reconcile.ErrName)
}

func storeFinalizer(t T) {
	s, by := newStore(t)
	holder, _ := s.Register("holder")
	key := resource.Named("eth0")
	expect(t, "Put", s.Links.Put(by, link("eth0", 1500)), nil)
	expect(t, "AddFinalizer", s.Links.AddFinalizer(holder, key), nil)
	expect(t, "Destroy", s.Links.Destroy(by, key), reconcile.ErrFinalizers)
	before := s.Seq(resource.LinkStatusKind)
	gone, err := s.Links.Teardown(by, key)
	expect(t, "Teardown", err, nil)
	_, meta, _ := s.Links.Get(key)
	check(t, !gone && meta.Phase == reconcile.TearingDown, "a held resource tears down and stays")
	check(t, s.Seq(resource.LinkStatusKind) > before, "its holder hears of it")
	expect(t, "AddFinalizer while it tears down", s.Links.AddFinalizer(by, key), reconcile.ErrTearingDown)
	s.Links.RemoveFinalizer(holder, key)
	check(t, s.Links.Len() == 0, "it goes with its last finalizer")
	s.Links.RemoveFinalizer(holder, key) // of one that is gone
}

func storeRevived(t T) {
	s, by := newStore(t)
	holder, _ := s.Register("holder")
	key := resource.Named("eth0")
	expect(t, "Put", s.Links.Put(by, link("eth0", 1500)), nil)
	expect(t, "AddFinalizer", s.Links.AddFinalizer(holder, key), nil)
	_, _ = s.Links.Teardown(by, key)
	expect(t, "Put while it tears down", s.Links.Put(by, link("eth0", 1500)), nil)
	_, meta, ok := s.Links.Get(key)
	check(t, ok && meta.Phase == reconcile.Running, "it runs on")
	s.Links.RemoveFinalizer(holder, key)
	check(t, s.Links.Len() == 1, "letting go of it takes nothing away")
}

func storeSweep(t T) {
	s, by := newStore(t)
	other, _ := s.Register("other", reconcile.Output{Kind: resource.AddressSpecKind, Shared: true})
	address := func(n byte) resource.AddressSpec {
		return resource.AddressSpec{Link: "eth0", Address: hal.Prefix{Address: hal.Address{Len: 4, Bytes: [16]byte{10, 0, 0, n}}, Bits: 8}}
	}
	for n := byte(1); n <= 3; n++ {
		expect(t, "Put", s.AddressSpecs.Put(by, address(n)), nil)
	}
	expect(t, "Put by another", s.AddressSpecs.Put(other, address(9)), nil)
	s.AddressSpecs.Begin()
	expect(t, "Put", s.AddressSpecs.Put(by, address(2)), nil)
	check(t, s.AddressSpecs.Marked(address(2).Key()) && !s.AddressSpecs.Marked(address(1).Key()), "Marked tells what was put")
	s.AddressSpecs.Sweep(by)
	left := s.AddressSpecs.List(nil)
	check(t, len(left) == 2 && left[0] == address(2) && left[1] == address(9), "what was put, and what is another's, stays")
}

func storeUnregister(t T) {
	s, by := newStore(t)
	holder, _ := s.Register("holder")
	expect(t, "Put(eth0)", s.Links.Put(by, link("eth0", 1500)), nil)
	expect(t, "Put(eth1)", s.Links.Put(by, link("eth1", 1500)), nil)
	expect(t, "AddFinalizer", s.Links.AddFinalizer(holder, resource.Named("eth1")), nil)
	check(t, !s.Unregister(by) && s.Links.Len() == 1, "what is held stays, and its owner with it")
	s.Links.RemoveFinalizer(holder, resource.Named("eth1"))
	check(t, s.Unregister(by), "then both go")
	_, err := s.Register("writer", reconcile.Output{Kind: resource.LinkStatusKind})
	expect(t, "Register of the name again", err, nil)
}

// storeLetsGo: the finalizers of a writer that was gone were the next writer's,
// and held resources for ever.
func storeLetsGo(t T) {
	s, by := newStore(t)
	holder, _ := s.Register("holder")
	for _, name := range []string{"eth0", "eth1", "eth2"} {
		expect(t, "Put", s.Links.Put(by, link(name, 1500)), nil)
		expect(t, "AddFinalizer", s.Links.AddFinalizer(holder, resource.Named(name)), nil)
	}
	_, _ = s.Links.Teardown(by, resource.Named("eth1"))
	check(t, s.Unregister(holder), "a writer that owns nothing goes at once")
	sameNumber(t, "the number of links, one of which was held alone", s.Links.Len(), 2)
	next, err := s.Register("next")
	expect(t, "Register", err, nil)
	check(t, next == holder, "its number is given again")
	expect(t, "Destroy", s.Links.Destroy(by, resource.Named("eth0")), nil)
	check(t, s.Unregister(0) && s.Unregister(99), "nobody can go")
}

func storeFull(t T) {
	s, by := newStore(t)
	name := []byte("l0000")
	for i := range reconcile.MaxEntries {
		name[1], name[2], name[3], name[4] = byte('0'+i/1000), byte('0'+i/100%10), byte('0'+i/10%10), byte('0'+i%10)
		if err := s.Links.Put(by, link(string(name), 1500)); err != nil {
			t.Fail("Put(" + string(name) + ") = " + err.Error())
			return
		}
	}
	expect(t, "Put of one more", s.Links.Put(by, link("one more", 1500)), reconcile.ErrFull)
	_, _, ok := s.Links.Get(resource.Named("l0777"))
	check(t, ok, "each can be found in a full table")
}

func ops(changes []reconcile.Change) string {
	text := ""
	for _, c := range changes {
		switch c.Op {
		case reconcile.Created:
			text += "+"
		case reconcile.Updated:
			text += "~"
		case reconcile.Destroyed:
			text += "-"
		case reconcile.Current:
			text += "="
		case reconcile.Synced:
			text += "."
		case reconcile.Lost:
			text += "?"
		}
		text += c.Key.Name
	}
	return text
}

func watchChanges(t T) {
	s, by := newStore(t)
	expect(t, "Put", s.Links.Put(by, link("eth0", 1500)), nil)
	out, at := s.Watch(resource.LinkStatusKind, 0, nil)
	sameText(t, "the first look", ops(out), "=eth0.")
	out, at = s.Watch(resource.LinkStatusKind, at, out[:0])
	sameText(t, "with nothing new", ops(out), "")
	expect(t, "Put", s.Links.Put(by, link("eth1", 1500)), nil)
	expect(t, "Put", s.Links.Put(by, link("eth0", 9000)), nil)
	expect(t, "Destroy", s.Links.Destroy(by, resource.Named("eth1")), nil)
	expect(t, "Put of another kind", s.AddressSpecs.Put(by, resource.AddressSpec{Link: "eth0"}), nil)
	out, at = s.Watch(resource.LinkStatusKind, at, out[:0])
	sameText(t, "after changes", ops(out), "~eth0-eth1")
	check(t, len(out) > 0 && out[0].Resource == resource.Resource(link("eth0", 9000)), "a change tells the value")
	out, _ = s.Watch(resource.LinkStatusKind, at+100, out[:0])
	sameText(t, "from a number that was never given", ops(out), "=eth0.")
}

func watchLost(t T) {
	s, by := newStore(t)
	expect(t, "Put", s.Links.Put(by, link("eth0", 1)), nil)
	_, at := s.Watch(resource.LinkStatusKind, 0, nil)
	for mtu := range uint32(reconcile.RingSize) {
		expect(t, "Put", s.Links.Put(by, link("eth0", 2+mtu)), nil)
	}
	out, _ := s.Watch(resource.LinkStatusKind, at, nil)
	sameText(t, "as far behind as can be", ops(out), "~eth0")
	expect(t, "Put", s.Links.Put(by, link("eth1", 1)), nil)
	out, _ = s.Watch(resource.LinkStatusKind, at, nil)
	sameText(t, "further behind", ops(out), "?=eth0=eth1.")
	check(t, len(out) > 0 && out[0].Lost == reconcile.RingSize+1, "the number of lost changes is exact")
}

func watchOvertaken(t T) {
	s, by := newStore(t)
	_, at := s.Watch(resource.LinkStatusKind, 0, nil)
	for range 3 {
		expect(t, "Put", s.Links.Put(by, link("eth0", 1)), nil)
		expect(t, "Put", s.Links.Put(by, link("eth0", 2)), nil)
		expect(t, "Destroy", s.Links.Destroy(by, resource.Named("eth0")), nil)
	}
	expect(t, "Put", s.Links.Put(by, link("eth0", 3)), nil)
	out, _ := s.Watch(resource.LinkStatusKind, at, nil)
	sameText(t, "after many changes", ops(out), "-eth0-eth0-eth0+eth0")
	var failure *reconcile.StoreError
	_, err := s.Links.Update(by, link("eth0", 4), 1)
	check(t, errors.As(err, &failure) && failure.Kind == resource.LinkStatusKind, "a refusal tells the kind")
}
