package main

import (
	"time"

	"machined/hal"
	"machined/reconcile/assembly"
	"machined/reconcile/resource"
)

// ledger is what the simulation remembers of what must not be lost.
type ledger struct {
	order     order             // that the job which runs was started under
	volumes   map[volume]string // UUIDs of volumes that were ready once
	uuids     map[string]bool   // of those that files were put on
	unmounted time.Duration     // when somebody unmounted a volume
	lowered   bool              // somebody set the clock to before the program was built
	names     map[string]bool   // of links, ever
	// What a start of the program could not know of, since the one before had
	// not told it or had not finished to take it away.
	orphans map[hal.Prefix]bool
	strays  map[resource.RouteSpec]bool
}

type volume struct {
	on   *storage
	name string
}

func newLedger() ledger {
	return ledger{volumes: map[volume]string{}, uuids: map[string]bool{}, names: map[string]bool{}, orphans: map[hal.Prefix]bool{}, strays: map[resource.RouteSpec]bool{}}
}

// order is what a job may do: the config and the disks at its start.
type order struct {
	settings *assembly.Settings
	chosen   *storage
	paths    map[string]*storage
}

func (o order) byPath(path string) *storage { return o.paths[path] }

// orders returns what holds now.
func (w *world) orders() order {
	o := order{settings: w.node.settings, paths: map[string]*storage{}}
	if chosen := w.candidates(); len(chosen) == 1 {
		o.chosen = chosen[0]
	}
	for _, s := range w.stores {
		if s.plugged {
			o.paths["/dev/"+s.name] = s
		}
	}
	return o
}

// item is one line of an inventory.
type item struct {
	on     *storage
	device hal.BlockDevice
}

// inventory lists all devices that are there.
func (w *world) inventory() []item {
	var out []item
	for _, d := range w.blocks.Devices() {
		out = append(out, item{w.at("/dev/" + d.Disk), d})
	}
	return out
}

// audit compares what a provisioning has left with what was there.
func (w *world) audit(r hal.Provision, before []item) {
	after := w.inventory()
	for _, b := range before {
		a, kept := find(after, b)
		if kept && same(a, b.device) {
			continue
		}
		w.judge(r, b, a, kept)
		if !kept || a.FSUUID != b.device.FSUUID {
			delete(b.on.tags, b.device.Number)
		}
	}
	for _, a := range after {
		if a.on.tags[a.device.Number] != 0 || a.device.Number == 0 {
			continue
		}
		a.on.tags[a.device.Number] = foreignTag
		switch {
		case a.device.Label == "STATE" || a.device.Label == "" && a.device.Number == 2:
			a.on.tags[a.device.Number] = stateTag
		case a.device.Label == "EPHEMERAL" || a.device.Label == "" && a.device.Number == 3:
			a.on.tags[a.device.Number] = ephemeralTag
		}
	}
}

func find(all []item, wanted item) (hal.BlockDevice, bool) {
	for _, i := range all {
		if i.on == wanted.on && i.device.Number == wanted.device.Number {
			return i.device, true
		}
	}
	return hal.BlockDevice{}, false
}

// same compares what is on a device.
func same(a, b hal.BlockDevice) bool {
	return a.FS == b.FS && a.FSUUID == b.FSUUID && a.FSLabel == b.FSLabel && a.Start == b.Start && a.Size == b.Size &&
		a.Type == b.Type && a.Label == b.Label && a.Table == b.Table && a.Blank == b.Blank
}

// judge says whether a device may be changed by a job of that order.
func (w *world) judge(r hal.Provision, before item, after hal.BlockDevice, kept bool) {
	s, d, o := before.on, before.device, w.ledger.order
	if s != o.chosen {
		w.fail("consent", "%s is changed, which is not the disk that the config names", d.Path)
		return
	}
	blank := d.Blank && kept && after.Start == d.Start && after.Size == d.Size
	if d.Number == 0 && blank && after.Table == hal.GPT {
		return
	}
	if tag := s.tags[d.Number]; d.Number != 0 && blank && after.FS == "ext4" && (tag == stateTag || tag == ephemeralTag) {
		return
	}
	switch {
	case s == w.boot:
		w.fail("boot disk", "%s of the boot disk is destroyed", d.Path)
	case !r.Wipe || !o.settings.Block.Wipe:
		w.fail("consent", "%s (%s) is destroyed without consent", d.Path, d.FS)
	case w.mountedFrom(d.Path):
		w.fail("consent", "%s is destroyed while it is mounted", d.Path)
	}
	for _, name := range volumeNames() {
		delete(w.ledger.volumes, volume{s, name})
	}
}

func volumeNames() [2]string { return [2]string{"STATE", "EPHEMERAL"} }

// checkVolumes looks at the volumes that are said to be ready.
func (w *world) checkVolumes() {
	// Nothing tells of what somebody unmounts: the node looks every minute.
	looked := w.now() > w.ledger.unmounted+65*time.Second
	t, healthy := &w.node.store.Volumes, looked && w.node.lastError("volumes") == ""
	for i := range t.Len() {
		v, _ := t.At(i)
		if v.Phase != "Ready" || !healthy {
			continue // what the node knew before it became blind stands
		}
		s, p := w.partitionAt(v.Device)
		if s == nil {
			w.fail("volume", "%s is ready on %s, which is not there", v.Name, v.Device)
			continue
		}
		key := volume{s, v.Name}
		if kept, known := w.ledger.volumes[key]; known && kept != p.FSUUID {
			w.fail("volume", "%s on %s was %s and is %s", v.Name, v.Device, kept, p.FSUUID)
		}
		w.ledger.volumes[key] = p.FSUUID
		target := w.node.targets()[i]
		if source := w.sourceAt(target); source != v.Device {
			w.fail("volume", "%s is ready on %s, and %q is mounted at %s", v.Name, v.Device, source, target)
		}
		want := hal.NoSuid | hal.NoDev
		if v.Name == "STATE" {
			want |= hal.NoExec
		}
		if got := w.mounts.Flags(target); got != want {
			w.fail("volume", "%s is mounted with the flags %b; want %b", v.Name, got, want)
		}
	}
}

// sourceAt returns what is mounted at a target.
func (w *world) sourceAt(target string) string {
	all, _ := w.mounts.List()
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Target == target {
			return all[i].Source
		}
	}
	return ""
}
