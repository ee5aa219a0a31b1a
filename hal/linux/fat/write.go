package fat

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// writer carries out what a checker found.
//
// The order makes a power cut harmless. The FATs are equal first, so that every
// reader sees what was checked. Then no directory entry asks for more than its
// chain has, and only then are clusters freed: a free one that an entry still
// leads to could be given to another file. Each step waits for the one before.
// The marks of a dirty volume go last.
type writer struct {
	*volume
	disk  Disk
	check *checker
	dirty bool
}

func (w *writer) write() error {
	steps := []struct {
		what string
		do   func() error
	}{
		{"mark it dirty", w.markDirty},
		{"make its FATs equal", w.mirror},
		{"correct its directory entries", w.patchEntries},
		{"free its lost clusters", w.writeTables},
		{"correct its count of free clusters", w.writeInfo},
		{"mark it clean", w.markClean},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

// put writes within the volume, whatever the volume says of itself.
func (w *writer) put(b []byte, off int64) error {
	if off < 0 || off > w.bytes-int64(len(b)) {
		return fmt.Errorf("write %d bytes at %d of a volume of %d: %w", len(b), off, w.bytes, ErrDamaged)
	}
	if _, err := w.disk.WriteAt(b, off); err != nil {
		return fmt.Errorf("write %d bytes at %d: %w", len(b), off, err)
	}
	return nil
}

// update changes some bytes of one atom and waits until they are on the disk.
func (w *writer) update(at int64, change func(b []byte)) error {
	start := at / atomicBytes * atomicBytes
	b := make([]byte, atomicBytes)
	if _, err := w.disk.ReadAt(b, start); err != nil {
		return fmt.Errorf("read %d bytes at %d: %w", len(b), start, err)
	}
	before := bytes.Clone(b)
	change(b[at-start:])
	if bytes.Equal(b, before) {
		return nil
	}
	if err := w.put(b, start); err != nil {
		return err
	}
	return w.disk.Sync()
}

// markDirty has a repair that is cut be continued: the volume may not have been
// dirty, or by the mark in the first FAT alone, which the second is copied over.
func (w *writer) markDirty() error {
	w.check.report.Dirty = w.dirty
	return w.update(bootState, func(b []byte) { b[0] |= stateDirty })
}

// mirror copies the FAT that is right over the other one.
func (w *writer) mirror() error {
	to := w.copyAt(1 - w.check.source)
	err := w.compareTables(func(first, second []byte, off int64) error {
		from, old := first, second
		if w.check.source == 1 {
			from, old = second, first
		}
		for at := 0; at < len(from); at += atomicBytes {
			end := at
			for ; end < len(from) && !bytes.Equal(from[end:end+atomicBytes], old[end:end+atomicBytes]); end += atomicBytes {
				w.check.report.Mirrored++
			}
			if end == at {
				continue
			}
			if err := w.put(from[at:end], to+off+int64(at)); err != nil {
				return err
			}
			at = end
		}
		return nil
	})
	if err != nil || w.check.report.Mirrored == 0 {
		return err
	}
	return w.disk.Sync()
}

// patchEntries writes each atom of a directory once, with all its changes.
func (w *writer) patchEntries() error {
	patches := w.check.patches
	slices.SortFunc(patches, func(a, b patch) int { return int(min(max(a.at-b.at, -1), 1)) })
	for i, end := 0, 0; i < len(patches); i = end {
		start := patches[i].at / atomicBytes * atomicBytes
		b := make([]byte, atomicBytes)
		if _, err := w.disk.ReadAt(b, start); err != nil {
			return fmt.Errorf("read %d bytes at %d: %w", len(b), start, err)
		}
		for end = i; end < len(patches) && patches[end].at < start+atomicBytes; end++ {
			p := patches[end]
			copy(b[p.at-start:], p.data[:p.size])
		}
		if err := w.put(b, start); err != nil {
			return err
		}
	}
	if len(patches) == 0 {
		return nil
	}
	return w.disk.Sync()
}

// writeTables writes the changes to both FATs.
func (w *writer) writeTables() error {
	wrote := false
	for n := range w.fats {
		err := w.check.table.changes(func(b []byte, off int64) error {
			wrote = true
			return w.put(b, w.copyAt(n)+off)
		})
		if err != nil {
			return err
		}
	}
	if !wrote {
		return nil
	}
	return w.disk.Sync()
}

// writeInfo corrects FSInfo. Its hint where to look for a free cluster is as
// good as any, if it is in the volume.
func (w *writer) writeInfo() error {
	if w.infoAt == 0 {
		return nil
	}
	le := binary.LittleEndian
	return w.update(w.infoAt+infoFree, func(b []byte) {
		if le.Uint32(b) != w.check.free {
			le.PutUint32(b, w.check.free)
			w.check.report.Summary = true
		}
		if next := b[infoNext-infoFree:]; !w.valid(le.Uint32(next)) {
			le.PutUint32(next, w.check.firstFree())
		}
	})
}

// markClean ends with the boot sector: as long as that is dirty, a cut is
// followed by another repair.
func (w *writer) markClean() error {
	for n := range w.fats {
		err := w.update(w.copyAt(n)+entryBytes, func(b []byte) {
			binary.LittleEndian.PutUint32(b, binary.LittleEndian.Uint32(b)|cleanShutdown)
		})
		if err != nil {
			return err
		}
	}
	return w.update(bootState, func(b []byte) { b[0] &^= stateDirty })
}
