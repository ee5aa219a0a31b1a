package main

import (
	"fmt"

	"machined/hal"
	"machined/reconcile/assembly"
	"machined/reconcile/block"
	"machined/reconcile/network"
)

// randomSettings makes a machine config, in the words of the core.
func (w *world) randomSettings() *assembly.Settings {
	s := &assembly.Settings{}
	w.randomNetwork(&s.Network)
	w.randomBlock(&s.Block)
	if w.chance(60) {
		for range w.between(1, 5) {
			s.Time.Servers = append(s.Time.Servers, fmt.Sprintf("ntp%d.example", w.rng.IntN(5)))
		}
		s.Time.Servers = unique(s.Time.Servers)
	}
	s.Time.Disabled = w.chance(5)
	s.Runtime.Pods, s.Runtime.Disabled = w.randomPods(), w.chance(5)
	return s
}

func unique(list []string) (out []string) {
	for _, s := range list {
		known := false
		for _, o := range out {
			known = known || o == s
		}
		if !known {
			out = append(out, s)
		}
	}
	return out
}

func (w *world) randomNetwork(s *network.Settings) {
	s.Hostname = pick(w, "", "", "node-1", "node-2")
	s.Nameservers = pick(w, "", "", "192.0.2.1", "192.0.2.1 192.0.2.2 fe80::1%eth0")
	s.Search = pick(w, "", "", "example.org")
	for _, n := range w.nics {
		switch {
		case n.loop && w.chance(10):
			s.Interfaces = append(s.Interfaces, network.Interface{Name: n.name, Up: true, Addresses: []hal.Prefix{prefix(v4(10, 99, 0, 1), 32)}})
		case !n.loop && w.chance(60):
			s.Interfaces = append(s.Interfaces, w.randomInterface(n))
		}
	}
	if w.chance(10) { // a card that never comes
		s.Interfaces = append(s.Interfaces, w.randomInterface(&nic{id: 9, name: "eth9"}))
	}
}

func (w *world) randomInterface(n *nic) network.Interface {
	i := network.Interface{Name: n.name, Up: w.chance(92), DHCP4: w.chance(50), AcceptRA: w.chance(50)}
	i.MTU = pick[uint32](w, 0, 0, 0, 1280, 1500, 9000)
	if w.chance(2) {
		i.MTU = 65536 // more than any driver takes
	}
	hosts := w.rng.IntN(3)
	for k := range byte(hosts) {
		i.Addresses = append(i.Addresses, prefix(v4(10, n.id, k, 10), 24))
	}
	six := w.chance(40)
	if six {
		i.Addresses = append(i.Addresses, prefix(v6(n.id, 2), 64))
	}
	if hosts > 0 && w.chance(60) {
		i.Routes = append(i.Routes, network.Route{Destination: hal.Prefix{Address: hal.Address{Len: 4}}, Gateway: v4(10, n.id, 0, 1), Metric: 100 + uint32(n.id)})
	}
	if hosts > 0 && w.chance(50) {
		r := network.Route{Destination: prefix(v4(10, 200, n.id, 0), 24), Gateway: v4(10, n.id, 0, byte(w.between(1, 2))), Metric: pick[uint32](w, 0, 50)}
		if w.chance(15) {
			r.Destination = prefix(v4(10, 210, 0, 0), 16) // another card may have it, too
		}
		i.Routes = append(i.Routes, r)
	}
	if six && w.chance(50) {
		r := network.Route{Destination: hal.Prefix{Address: hal.Address{Len: 16}}, Gateway: v6(n.id, 1), Metric: uint32(n.id) * 10}
		i.Routes = append(i.Routes, r)
	}
	if w.chance(3) { // to nowhere
		i.Routes = append(i.Routes, network.Route{Destination: prefix(v4(10, 230, n.id, 0), 24), Gateway: v4(203, 0, 113, 1)})
	}
	return i
}

func (w *world) randomBlock(s *block.Settings) {
	s.StateSize = pick[int64](w, 16, 16, 32, 128) * mib
	s.EphemeralSize = pick[int64](w, 0, 0, 16, 512) * mib
	switch w.rng.IntN(10) {
	case 0, 1, 2:
		s.Disk = "/dev/" + pick(w, "sda", "sdb", "nvme0n1", "mmcblk0")
	case 3:
		s.Selector = &block.Selector{Model: pick(w, "Samsung*", "*sung PM", "Kingston", "K*g*n")}
	case 4:
		s.Selector = &block.Selector{Bus: pick(w, "usb", "ata", "nvme", "mmc"), MinSize: pick[int64](w, 0, 256*mib), MaxSize: pick[int64](w, 0, 4096*mib)}
	case 5:
		s.Selector = &block.Selector{Serial: fmt.Sprintf("S%d", w.between(1, 12))}
	}
	s.Wipe = (s.Disk != "" || s.Selector != nil) && w.chance(50)
}

// mutate changes one thing of the config, as people do.
func (w *world) mutate() *assembly.Settings {
	next, other := *w.node.settings, w.randomSettings()
	switch w.rng.IntN(6) {
	case 0:
		return other
	case 1:
		next.Block = other.Block
	case 2:
		next.Time = other.Time
	case 3:
		next.Network.Hostname, next.Network.Nameservers, next.Network.Search = other.Network.Hostname, other.Network.Nameservers, other.Network.Search
	default:
		next.Network.Interfaces = other.Network.Interfaces
	}
	return &next
}

// candidates returns the disks that the config means, by what is true.
func (w *world) candidates() []*storage {
	var out []*storage
	c := w.node.settings.Block
	for _, s := range w.stores {
		d := &s.disk
		switch {
		case !s.plugged:
		case c.Disk != "":
			if c.Disk == "/dev/"+s.name {
				out = append(out, s)
			}
		case c.Selector != nil:
			sel := c.Selector
			if like(sel.Model, d.Model) && like(sel.Serial, d.Serial) && (sel.Bus == "" || sel.Bus == d.Bus) &&
				d.Size >= sel.MinSize && (sel.MaxSize == 0 || d.Size <= sel.MaxSize) {
				out = append(out, s)
			}
		case s == w.boot:
			out = append(out, s)
		}
	}
	return out
}

// like matches a pattern, one byte after the other.
func like(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	var match func(p, t string) bool
	match = func(p, t string) bool {
		switch {
		case p == "":
			return t == ""
		case p[0] == '*':
			return match(p[1:], t) || t != "" && match(p, t[1:])
		}
		return t != "" && p[0] == t[0] && match(p[1:], t[1:])
	}
	return match(pattern, text)
}
