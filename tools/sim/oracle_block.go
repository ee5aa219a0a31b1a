package main

import (
	"machined/hal"
	"machined/hal/fake"
	"machined/reconcile/resource"
)

// judgeBlock compares the volumes with the decision table, which it reads by
// what partitions are, and not by what they look like.
func (w *world) judgeBlock(v *verdict) {
	want := w.expected(v)
	for i, name := range volumeNames() {
		got, _, _ := w.node.store.Volumes.Get(resource.Named(name))
		if got.Phase != want[i] && !(want[i] == "Failed" && (got.Phase == "Mounting" || got.Phase == "Provisioning")) {
			v.miss("%s is %s (%s); want %s", name, got.Phase, got.Message, want[i])
		}
		if want[i] == "Failed" {
			v.may["volumes"] = true
		}
		if want[i] == "Ready" && got.Phase == "Ready" {
			if s, p := w.partitionAt(got.Device); s == nil || w.tagName(s, p.Number) != name {
				v.miss("%s is ready on %s, which is another partition", name, got.Device)
			}
		}
	}
}

func (w *world) tagName(s *storage, number int) string {
	return map[tag]string{stateTag: "STATE", ephemeralTag: "EPHEMERAL", bootTag: "boot", foreignTag: "foreign"}[s.tags[number]]
}

func both(phase string) [2]string { return [2]string{phase, phase} }

// expected returns the phases of STATE and EPHEMERAL.
func (w *world) expected(v *verdict) [2]string {
	c := w.node.settings.Block
	chosen := w.candidates()
	switch {
	case len(chosen) > 1, len(chosen) == 0 && c.Disk == "" && c.Selector == nil && w.node.bootDisk == "":
		return both("Refused")
	case len(chosen) == 0:
		return both("Waiting")
	}
	s := chosen[0]
	disk, parts := w.contents(s)
	var found [2]hal.BlockDevice
	foreign, labels := disk.FS != "" || disk.Table == hal.MBR && s != w.boot || disk.Table == hal.NoTable && !disk.Blank, [2]int{}
	for _, p := range parts {
		for i, name := range volumeNames() {
			if s.tags[p.Number] == stateTag+tag(i) && p.FS == "ext4" {
				found[i] = p
			}
			if p.Label == name || disk.Table == hal.MBR && s.tags[p.Number] == stateTag+tag(i) {
				labels[i]++
			}
		}
		foreign = foreign || s.tags[p.Number] == foreignTag
	}
	foreign = foreign || disk.Trouble != ""
	if disk.Trouble != "" && disk.Table == hal.NoTable || labels[0] > 1 || labels[1] > 1 {
		return both("Refused")
	}
	mine, wanting := w.readiness(disk, found)
	switch {
	case !wanting:
	case disk.ReadOnly:
		return fill(mine, "Refused")
	case !foreign:
		return fill(mine, w.made(v, disk, false))
	case s != w.boot && c.Wipe && found[0].Name == "" && found[1].Name == "" && !w.diskInUse(s):
		return both(w.made(v, disk, true))
	default:
		return fill(mine, "Refused")
	}
	return mine
}

// readiness returns the phases of the volumes that are there, "" for others,
// and whether there are others.
func (w *world) readiness(disk hal.BlockDevice, found [2]hal.BlockDevice) (phases [2]string, wanting bool) {
	for i, target := range w.node.targets() {
		source := w.sourceAt(target)
		switch {
		case found[i].Name == "":
			wanting = true
		case source != "" && source != found[i].Path:
			phases[i] = "Failed" // another volume is in its place
		case disk.ReadOnly || found[i].ReadOnly:
			phases[i] = "Failed"
		default:
			phases[i] = "Ready"
		}
	}
	return phases, wanting
}

func fill(phases [2]string, rest string) [2]string {
	for i := range phases {
		if phases[i] == "" {
			phases[i] = rest
		}
	}
	return phases
}

// made returns the phase of volumes that are to be made: none stays so when it
// can be done.
func (w *world) made(v *verdict, disk hal.BlockDevice, wipe bool) string {
	if why, later := w.node.mayProvision(); later {
		return "Waiting"
	} else if why != "" {
		return "Failed"
	}
	blocks := &fake.BlockDevices{}
	for _, d := range w.blocks.Devices() {
		switch {
		case d.Disk != disk.Name:
		case d.Number == 0:
			blocks.AddDisk(d)
		default:
			blocks.AddPartition(d)
		}
	}
	c := w.node.settings.Block
	p := fake.Provisioner{Blocks: blocks}
	err := p.Provision(hal.Provision{
		Disk: disk.Path, Wipe: wipe, Volumes: []hal.NewVolume{{Label: "STATE", Size: c.StateSize}, {Label: "EPHEMERAL", Size: c.EphemeralSize}},
	})
	if err != nil {
		return "Failed"
	}
	v.miss("volumes can be made on %s (wipe: %v), and are not", disk.Path, wipe)
	return "Ready"
}

func (w *world) diskInUse(s *storage) bool {
	_, parts := w.contents(s)
	for _, p := range parts {
		if w.mountedFrom(p.Path) {
			return true
		}
	}
	return w.mountedFrom("/dev/" + s.name)
}
