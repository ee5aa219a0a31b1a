package main

import (
	"time"

	"machined/hal"
)

func dur(n int64) time.Duration { return time.Duration(n) }

func (w *world) anyDisk() *storage {
	if len(w.stores) == 0 {
		return nil
	}
	if s := w.stores[w.rng.IntN(len(w.stores))]; s.plugged {
		return s
	}
	return nil
}

func (w *world) pullDisk() {
	s := w.anyDisk()
	if s == nil {
		return
	}
	w.unplug(s)
	w.later(w.between(second, 90*second), func() { w.plug(s) })
}

func (w *world) changePartitions() {
	s := w.anyDisk()
	switch {
	case s == nil:
	case w.chance(40):
		w.addForeign(s)
	case w.chance(25):
		w.damage(s)
	default:
		w.removeForeign(s)
	}
}

// damage takes the file system of a volume that is not in use. What is left is
// unknown data, and not the node's to destroy any more.
func (w *world) damage(s *storage) {
	_, parts := w.contents(s)
	for _, p := range parts {
		if t := s.tags[p.Number]; p.FS == "ext4" && (t == stateTag || t == ephemeralTag) && !w.mountedFrom(p.Path) {
			p.FS, p.FSLabel, p.FSUUID, s.tags[p.Number] = "", "", "", foreignTag
			delete(w.ledger.volumes, volume{s, volumeNames()[t-stateTag]})
			w.blocks.Change(p)
			w.note("the file system of %s is gone", p.Name)
			return
		}
	}
}

// troubleDisk makes a disk unreadable for a while.
func (w *world) troubleDisk() {
	s := w.anyDisk()
	if s == nil {
		return
	}
	if disk, _ := w.contents(s); disk.Trouble == "" {
		s.table = disk.Table
		disk.Trouble, disk.Table = "it does not answer", hal.NoTable
		w.blocks.Change(disk)
		w.note("%s does not answer", s.name)
		w.later(w.seconds(1, 60), func() { w.cure(s) })
	}
}

func (w *world) cure(s *storage) {
	if disk, _ := w.contents(s); disk.Trouble == "it does not answer" {
		disk.Trouble, disk.Table = "", s.table
		if s.disk = disk; s.plugged {
			w.blocks.Change(disk)
		}
	}
}

// unmount takes a volume away from the node.
func (w *world) unmount() {
	target := pick(w, statePath, varPath)
	if w.mounts.Unmount(target, true) != hal.ErrNotMounted {
		w.ledger.unmounted = w.now()
		w.note("somebody unmounts %s", target)
	}
}
