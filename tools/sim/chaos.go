package main

import (
	"machined/hal"
)

// mishap is something that happens to a node, and how often beside others.
type mishap struct {
	weight int
	do     func(*world)
}

// mishaps are all that the simulation does to a node.
func mishaps() []mishap {
	return []mishap{
		{8, (*world).flapCarrier}, {5, (*world).pullNIC}, {4, (*world).lowerLink}, {6, (*world).removeOwn}, {4, (*world).addForeignAddress},
		{4, (*world).addForeignRoute}, {2, (*world).changeMTU}, {3, (*world).changeNames}, {8, (*world).troubleServer},
		{4, (*world).changeTimeHost}, {3, (*world).jumpClock}, {4, (*world).pullDisk}, {2, (*world).changePartitions},
		{2, (*world).troubleDisk}, {2, (*world).unmount}, {10, (*world).breakDrivers}, {3, (*world).cut}, {3, (*world).cutProvision},
		{4, (*world).slowJobs}, {2, (*world).hangJobs}, {5, (*world).reconfigure}, {2, (*world).restart}, {1, func(w *world) { w.reboot("asked for") }},
	}
}

// chaos does one thing, and plans the next.
func (w *world) chaos() {
	w.counts.chaos++
	all := append(mishaps(), podMishaps()...)
	sum := 0
	for _, m := range all {
		sum += m.weight
	}
	at := w.rng.IntN(sum)
	for _, m := range all {
		if at -= m.weight; at < 0 {
			m.do(w)
			break
		}
	}
	w.nextChaos = w.now() + 1
	if w.chance(75) {
		w.nextChaos += dur(w.between(0, 12*second))
	}
}

// calm ends all that goes wrong by itself. What is there stays as it is.
func (w *world) calm() {
	w.note("calm")
	w.nextChaos, w.faults, w.cutAfter, w.slow = never, nil, 0, second/2
	w.provisioner.Heal("Volume")
	w.provisioner.Heal("Wipe")
	w.jobs.Heal()
	w.calmContainers()
	for _, n := range w.nics {
		for _, s := range n.servers {
			s.Refuses, s.Deaf, s.Silent = false, 0, w.chance(15)
		}
	}
	for _, s := range w.stores {
		if s.plugged && w.chance(90) {
			w.cure(s)
		}
	}
}

// anyNIC returns a card that is there, nil when there is none.
func (w *world) anyNIC() *nic {
	n := w.nics[1+w.rng.IntN(len(w.nics)-1)]
	if n.index == 0 {
		return nil
	}
	return n
}

func (w *world) flapCarrier() {
	n := w.anyNIC()
	if n == nil {
		return
	}
	set := func(carrier bool) {
		n.carrier = carrier
		w.note("carrier of %s: %v", n.name, carrier)
		if n.index != 0 {
			w.links.SetCarrier(n.index, carrier)
		}
	}
	set(!n.carrier)
	if w.chance(80) {
		back := !n.carrier
		w.later(w.between(0, 30*second), func() { set(back) })
	}
}

func (w *world) pullNIC() {
	n := w.anyNIC()
	if n == nil {
		return
	}
	w.unplugNIC(n)
	if w.chance(15) {
		n.name = "usb" + string('0'+n.id) // udev calls it otherwise
	}
	w.later(w.between(1, 90*second), func() { w.plugNIC(n) })
}

func (w *world) lowerLink() {
	if n := w.anyNIC(); n != nil {
		w.note("somebody lowers %s", n.name)
		_ = w.links.SetUp(n.index, w.chance(10))
		w.afterLink()
	}
}

// removeOwn takes an address or a route of the node's out of the kernel.
func (w *world) removeOwn() {
	n := w.anyNIC()
	if n == nil {
		return
	}
	if w.chance(50) {
		all, _ := w.links.Addresses(n.index)
		if len(all) > len(n.addresses) {
			if a := all[w.rng.IntN(len(all))]; !contains(n.addresses, a) {
				w.note("somebody removes %v of %s", a, n.name)
				_ = w.links.RemoveAddress(n.index, a)
				w.afterLink()
			}
		}
		return
	}
	all, _ := w.links.Routes()
	for _, r := range all {
		if r.Link == n.index && r.Gateway.Len != 0 && !contains(n.routes, r) && w.chance(50) {
			w.note("somebody removes the route to %v", r.Destination)
			_ = w.links.RemoveRoute(r)
		}
	}
}

func contains[T comparable](list []T, wanted T) bool {
	for _, x := range list {
		if x == wanted {
			return true
		}
	}
	return false
}

func (w *world) addForeignAddress() {
	if n := w.anyNIC(); n != nil {
		a := prefix(v4(172, 31, n.id, byte(w.between(1, 5))), 24)
		if w.chance(30) {
			a = prefix(v6(n.id+64, byte(w.between(1, 5))), 64)
		}
		if !contains(n.addresses, a) && w.links.AddAddress(n.index, a) == nil {
			n.addresses = append(n.addresses, a)
			w.note("somebody adds %v to %s", a, n.name)
		}
	}
}

func (w *world) addForeignRoute() {
	n := w.anyNIC()
	if n == nil || len(n.addresses) == 0 || n.addresses[0].Address.Len != 4 {
		return
	}
	gateway := n.addresses[0].Address
	gateway.Bytes[3] = 254
	r := hal.Route{Link: n.index, Destination: prefix(v4(198, 18, byte(w.between(1, 9)), 0), 24), Gateway: gateway, Metric: uint32(n.id)}
	if !contains(n.routes, r) && w.links.AddRoute(r) == nil {
		n.routes = append(n.routes, r)
		w.note("somebody adds a route to %v", r.Destination)
	}
}

func (w *world) changeMTU() {
	if n := w.anyNIC(); n != nil {
		mtu := uint32(w.between(1280, 1500))
		n.mtus = append(n.mtus, mtu)
		_ = w.links.SetMTU(n.index, mtu)
	}
}

// changeNames changes the host name, the resolver's file or accept_ra.
func (w *world) changeNames() {
	switch w.rng.IntN(4) {
	case 0:
		_ = w.host.SetHostname("hacked")
	case 1:
		_ = w.files.Remove(resolverPath)
	case 2:
		w.files.Put(resolverPath, []byte("nameserver 203.0.113.9\n"), true)
	case 3:
		if n := w.anyNIC(); n != nil {
			_ = w.host.SetSysctl(raKey(n.name), "1")
			w.links.SetCarrier(n.index, n.carrier) // nothing tells of sysctls: a change comes along
		}
	}
}

func (w *world) troubleServer() {
	n := w.nics[1+w.rng.IntN(len(w.nics)-1)]
	if len(n.servers) == 0 {
		return
	}
	s := n.servers[w.rng.IntN(len(n.servers))]
	what := w.rng.IntN(6)
	w.note("trouble %d with a DHCP server of %s", what, n.name)
	switch what {
	case 0:
		s.Silent = !s.Silent
	case 1:
		s.Refuses = true
		w.later(w.seconds(5, 90), func() { s.Refuses = false })
	case 2:
		s.Forget()
	case 3:
		w.move(s, n)
	case 4:
		s.Deaf = w.rng.IntN(5)
	case 5:
		w.manners(s)
	}
}

func (w *world) changeTimeHost() {
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	w.character(h)
	w.note("%s is honest: %v", h.Name, h.honest)
}

func (w *world) jumpClock() {
	to := w.clock.Now() + pick(w, w.between(-second, second), w.seconds(-3600, 3600), w.seconds(-3600, 3600)*24*365)
	if w.clock.Set(max(to, 0)) == nil && to < built {
		w.ledger.lowered = true
	}
	w.drift = w.between(-30_000, 30_000)
	w.note("somebody sets the clock")
}

func (w *world) breakDrivers() {
	b := burst{driver: pick(w, "", "", "links", "host", "dhcp", "ntp", "clock", "files", "mounts", "disks", "provisioner", "cri", "cri", "prepare")}
	b.percent, b.until = pick(w, 5, 30, 100), w.now()+dur(w.between(second, 60*second))
	kept := w.faults[:0]
	for _, other := range w.faults {
		if other.until > w.now() {
			kept = append(kept, other)
		}
	}
	w.faults = append(kept, b)
	w.note("%d %% of the calls of %q fail", b.percent, b.driver)
}

// cut lets the power go in the middle of a pass.
func (w *world) cut() { w.cutAfter = int(w.between(1, 60)) }

// cutProvision lets it go in the middle of the next provisioning.
func (w *world) cutProvision() {
	if w.chance(30) {
		w.provisioner.Fail("Wipe", 1, errCut)
		return
	}
	w.provisioner.Fail("Volume", int(w.between(1, 2)), errCut)
}

func (w *world) slowJobs() {
	w.slow = w.seconds(1, 60)
	w.later(w.seconds(10, 120), func() { w.slow = second / 2 })
}

func (w *world) hangJobs() {
	w.note("jobs hang")
	w.jobs.Stuck = true
	w.later(w.seconds(10, 60), func() { w.jobs.Heal() })
}

func (w *world) reconfigure() {
	w.counts.configs++
	w.note("another config")
	w.node.configure(w.mutate())
}
