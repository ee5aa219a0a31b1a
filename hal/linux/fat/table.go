package fat

import (
	"encoding/binary"
	"fmt"
)

const (
	entryBytes = 4
	perAtom    = atomicBytes / entryBytes
)

// table is one FAT in memory, with the changes that are to be made.
type table struct {
	entries []uint32 // with their highest four bits; whole atoms
	changed bitmap   // by atom
}

// bitmap is a set of small numbers.
type bitmap []uint64

func newBitmap(n int) bitmap { return make(bitmap, (n+63)/64) }

func (b bitmap) has(n uint32) bool { return b[n/64]&(1<<(n%64)) != 0 }
func (b bitmap) add(n uint32)      { b[n/64] |= 1 << (n % 64) }
func (b bitmap) remove(n uint32)   { b[n/64] &^= 1 << (n % 64) }

// readTable reads a FAT: 0 for the first. It takes the memory of old, if there
// is one.
func (v *volume) readTable(copyNumber int, old *table) (*table, error) {
	t := old
	if t == nil {
		n := int(v.tableBytes() / entryBytes)
		t = &table{entries: make([]uint32, n), changed: newBitmap(n / perAtom)}
	}
	clear(t.changed)
	block := make([]byte, min(blockBytes, v.tableBytes()))
	for off := int64(0); off < v.tableBytes(); off += blockBytes {
		b := block[:min(blockBytes, v.tableBytes()-off)]
		if _, err := v.disk.ReadAt(b, v.copyAt(copyNumber)+off); err != nil {
			return nil, fmt.Errorf("read FAT %d at %d: %w", copyNumber+1, off, err)
		}
		for i := 0; i < len(b); i += entryBytes {
			t.entries[(int(off)+i)/entryBytes] = binary.LittleEndian.Uint32(b[i:])
		}
	}
	return t, nil
}

func (t *table) get(cluster uint32) uint32 { return t.entries[cluster] & entryMask }

func (t *table) set(cluster, value uint32) {
	t.entries[cluster] = t.entries[cluster]&^entryMask | value
	t.changed.add(cluster / perAtom)
}

// changes hands the runs of atoms with a change to f, with their offset from
// the start of the FAT.
func (t *table) changes(f func(b []byte, off int64) error) error {
	var b []byte
	atoms := uint32(len(t.entries) / perAtom)
	for at := uint32(0); at < atoms; at++ {
		if !t.changed.has(at) {
			continue
		}
		for _, e := range t.entries[at*perAtom : (at+1)*perAtom] {
			b = binary.LittleEndian.AppendUint32(b, e)
		}
		if at+1 < atoms && t.changed.has(at+1) && len(b) < blockBytes {
			continue
		}
		if err := f(b, int64(at+1)*atomicBytes-int64(len(b))); err != nil {
			return err
		}
		b = b[:0]
	}
	return nil
}
