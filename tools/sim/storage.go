package main

import (
	"fmt"
	"slices"
	"strings"

	"machined/hal"
	"machined/hal/fake"
)

// storage is a disk. What is on it is in the machine while it is plugged in,
// and here otherwise.
type storage struct {
	name    string // that the kernel gave it last
	plugged bool
	disk    hal.BlockDevice
	parts   []hal.BlockDevice
	tags    map[int]tag // of its partitions, by number
	table   hal.Table   // that it has while it cannot be read
}

// tag is what a partition is. It is told when the partition is made, and not by
// what can be read.
type tag uint8

const (
	bootTag tag = iota + 1
	stateTag
	ephemeralTag
	foreignTag
)

const (
	mib      = 1 << 20
	efiType  = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
	dataType = "0fc63daf-8483-4772-8e79-3d69d8477de4"
)

// content is a partition to be put on a disk.
type content struct {
	number int
	size   int64 // MiB
	tag    tag
	fs     string // "" for a blank one
	label  string // in a GPT
}

func (w *world) makeDisks() {
	w.blocks = &fake.BlockDevices{Mounts: w.mounts}
	w.disks = &fake.Disks{Blocks: w.blocks}
	w.provisioner.Blocks = w.blocks
	if w.chance(85) {
		w.boot = w.makeBootDisk()
	}
	for range w.rng.IntN(3) {
		w.makeDisk()
	}
}

func (w *world) newDisk(bus string, table hal.Table) *storage {
	w.serial++
	s := &storage{tags: map[int]tag{}}
	s.disk = hal.BlockDevice{
		Size: pick[int64](w, 64, 256, 1024, 8192) * mib, Model: pick(w, "Samsung 870", "Samsung PM", "Kingston"), Bus: bus,
		Serial: fmt.Sprintf("S%d", w.serial), Table: table, ReadOnly: w.chance(3),
	}
	w.stores = append(w.stores, s)
	return s
}

// makeBootDisk makes the disk that the node was booted from, as an image leaves
// it, or as an earlier boot, or somebody else, does.
func (w *world) makeBootDisk() *storage {
	boot := content{1, 32, bootTag, "vfat", "EFI"}
	state, ephemeral := content{2, 16, stateTag, "ext4", "STATE"}, content{3, 16, ephemeralTag, "ext4", "EPHEMERAL"}
	blank := content{2, 16, stateTag, "", "STATE"}
	layout := pick(w, []content{boot}, []content{boot}, []content{boot}, []content{boot, state}, []content{boot, state, ephemeral},
		[]content{boot, blank}, []content{boot, {2, 16, foreignTag, "ntfs", "data"}}, []content{boot, state, {4, 16, foreignTag, "xfs", ""}})
	table := pick(w, hal.MBR, hal.GPT)
	s := w.newDisk(pick(w, "mmc", "usb", "nvme"), table)
	s.disk.ReadOnly = false
	w.lay(s, layout)
	return s
}

// makeDisk makes another disk, with all sorts of things on it.
func (w *world) makeDisk() {
	state, ephemeral := content{1, 16, stateTag, "ext4", "STATE"}, content{2, 16, ephemeralTag, "ext4", "EPHEMERAL"}
	foreign := content{3, 16, foreignTag, "ntfs", "Windows"}
	s := w.newDisk(pick(w, "usb", "ata", "nvme"), hal.GPT)
	switch w.rng.IntN(16) {
	case 0, 1, 2:
		s.disk.Table, s.disk.Blank = hal.NoTable, true
	case 3:
		s.disk.Table = hal.NoTable // something unknown
	case 4:
		s.disk.Table, s.disk.FS, s.disk.FSLabel = hal.NoTable, "ext4", "STATE"
	case 5: // an empty table
	case 6:
		w.lay(s, []content{state, ephemeral})
	case 7:
		w.lay(s, []content{state})
	case 8:
		w.lay(s, []content{ephemeral, foreign})
	case 9:
		w.lay(s, []content{foreign})
	case 10:
		w.lay(s, []content{state, {2, 16, stateTag, pick(w, "ext4", ""), "STATE"}})
	case 11:
		w.lay(s, []content{{1, 16, stateTag, "", "STATE"}})
	case 12:
		w.lay(s, []content{{1, 16, foreignTag, "crypto_LUKS", "STATE"}})
	case 13:
		s.disk.Table = hal.MBR
		w.lay(s, []content{{1, 16, foreignTag, "vfat", ""}})
	case 14:
		w.lay(s, []content{{1, 16, bootTag, "vfat", "EFI"}, state})
	case 15:
		s.disk.Trouble = "both copies of the GPT are damaged"
	}
}

// lay puts partitions on a disk that is not plugged in.
func (w *world) lay(s *storage, layout []content) {
	start := int64(mib)
	for _, c := range layout {
		w.serial++
		p := hal.BlockDevice{Number: c.number, Start: start, Size: c.size * mib, FS: c.fs, Blank: c.fs == "", ReadOnly: s.disk.ReadOnly}
		if c.fs != "" {
			p.FSUUID = fmt.Sprintf("uuid-%d", w.serial)
		}
		if c.tag == stateTag || c.tag == ephemeralTag {
			p.FSLabel = c.label
		}
		if s.disk.Table == hal.GPT {
			p.Label, p.Type = c.label, map[bool]string{true: efiType, false: dataType}[c.tag == bootTag]
		} else {
			p.Type = map[tag]string{bootTag: "0c", stateTag: "83", ephemeralTag: "83", foreignTag: "07"}[c.tag]
		}
		start += p.Size
		s.parts, s.tags[c.number] = append(s.parts, p), c.tag
	}
}

// plug plugs a disk in, by a name that is free.
func (w *world) plug(s *storage) {
	if s.plugged {
		return
	}
	s.plugged, s.name = true, w.freeName(s.disk.Bus)
	s.disk.Name, s.disk.Path = s.name, ""
	w.blocks.AddDisk(s.disk)
	for _, p := range s.parts {
		p.Disk, p.Path = s.name, ""
		w.blocks.AddPartition(p)
	}
	w.note("disk %s is %s", s.disk.Serial, s.name)
}

// freeName follows the kernel: a name is in use as long as something is mounted
// from it, if the disk is there or not.
func (w *world) freeName(bus string) string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("sd%c", 'a'+i)
		switch bus {
		case "mmc":
			name = fmt.Sprintf("mmcblk%d", i)
		case "nvme":
			name = fmt.Sprintf("nvme%dn1", i)
		}
		_, taken := w.blocks.Find(name)
		if !taken && !w.mountedFrom("/dev/"+name) {
			return name
		}
	}
}

// mountedFrom reports whether a disk or a partition of it is mounted.
func (w *world) mountedFrom(path string) bool {
	all, _ := w.mounts.List()
	return slices.ContainsFunc(all, func(m hal.MountInfo) bool { return strings.HasPrefix(m.Source, path) })
}

// unplug pulls a disk out, with what is on it now.
func (w *world) unplug(s *storage) {
	if !s.plugged {
		return
	}
	s.disk, s.parts = w.contents(s)
	w.blocks.Remove(s.name)
	s.plugged = false
	w.note("%s goes", s.name)
}

// contents returns what is on a disk.
func (w *world) contents(s *storage) (disk hal.BlockDevice, parts []hal.BlockDevice) {
	if !s.plugged {
		return s.disk, s.parts
	}
	for _, d := range w.blocks.Devices() {
		switch {
		case d.Disk != s.name:
		case d.Number == 0:
			disk = d
		default:
			parts = append(parts, d)
		}
	}
	return disk, parts
}

// at returns the disk at a path such as /dev/sda.
func (w *world) at(path string) *storage {
	for _, s := range w.stores {
		if s.plugged && "/dev/"+s.name == path {
			return s
		}
	}
	return nil
}

// partitionAt returns the partition at a path such as /dev/sda1.
func (w *world) partitionAt(path string) (*storage, hal.BlockDevice) {
	for _, d := range w.blocks.Devices() {
		if d.Path == path {
			return w.at("/dev/" + d.Disk), d
		}
	}
	return nil, hal.BlockDevice{}
}

// addForeign makes a partition of somebody else's behind all others, if there
// is room.
func (w *world) addForeign(s *storage) {
	disk, parts := w.contents(s)
	number, start := 1, int64(mib)
	for _, p := range parts {
		number, start = max(number, p.Number+1), max(start, p.Start+p.Size)
	}
	if disk.Table == hal.NoTable || disk.Trouble != "" || start+18*mib > disk.Size || disk.Table == hal.MBR && number > 4 {
		return
	}
	w.serial++
	p := hal.BlockDevice{Disk: s.name, Number: number, Start: start, Size: 16 * mib, FS: "xfs", FSUUID: fmt.Sprintf("uuid-%d", w.serial), Type: "07"}
	if disk.Table == hal.GPT {
		p.Type, p.Label = dataType, "backup"
	}
	s.tags[number] = foreignTag
	w.blocks.AddPartition(p)
	w.note("somebody makes partition %d of %s", number, s.name)
}

// removeForeign takes somebody else's partition away again.
func (w *world) removeForeign(s *storage) {
	_, parts := w.contents(s)
	for _, p := range parts {
		if s.tags[p.Number] == foreignTag && !w.mountedFrom(p.Path) {
			delete(s.tags, p.Number)
			w.blocks.Remove(p.Name)
			w.note("somebody removes %s", p.Name)
			return
		}
	}
}
