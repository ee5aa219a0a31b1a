package volume

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"unicode/utf16"

	"machined/hal"
	"machined/hal/signature"
)

const usualEntries = 128

// layout is where the pieces of a GPT are on a disk, in blocks.
type layout struct {
	block         int64 // bytes
	end           int64 // the backup's header
	entriesBlocks int64
}

func layoutOf(disk *opened, entries int) layout {
	return layout{block: disk.block, end: disk.size/disk.block - 1, entriesBlocks: (int64(entries) + disk.block - 1) / disk.block}
}

// header returns one copy's header in a block (UEFI specification, 5.3.2).
func header(g *signature.GPT, block int64) []byte {
	b := make([]byte, block)
	le := binary.LittleEndian
	copy(b, "EFI PART\x00\x00\x01\x00\x5c\x00\x00\x00")
	le.PutUint64(b[24:], uint64(g.At))
	le.PutUint64(b[32:], uint64(g.Other))
	le.PutUint64(b[40:], uint64(g.First))
	le.PutUint64(b[48:], uint64(g.Last))
	copy(b[56:], g.GUID[:])
	le.PutUint64(b[72:], uint64(g.EntriesAt))
	le.PutUint32(b[80:], uint32(len(g.Entries)/signature.EntrySize))
	le.PutUint32(b[84:], signature.EntrySize)
	le.PutUint32(b[88:], crc32.ChecksumIEEE(g.Entries))
	le.PutUint32(b[16:], crc32.ChecksumIEEE(b[:92]))
	return b
}

// padded returns the entries in whole blocks.
func (l layout) padded(entries []byte) []byte {
	return append(bytes.Clone(entries), make([]byte, l.entriesBlocks*l.block-int64(len(entries)))...)
}

// writeGPT writes both copies of a table that reaches to the end of the disk.
// The backup is on the disk before the primary copy is touched. Of that, header
// and first entries are neighbours and go in one write. Last comes the
// protective MBR, one sector: without it there is no GPT.
func writeGPT(disk *opened, g signature.GPT) error {
	l := layoutOf(disk, len(g.Entries))
	// A table made for another disk reaches to this one's end. One that claims
	// more than there is before its backup is refused by checkFit.
	if most := l.end - l.entriesBlocks - 1; g.Other != l.end || g.At != 1 || g.Last > most {
		g.Last = most
	}
	if g.At != 1 {
		g.EntriesAt = 2
	}
	g.At, g.Other = 1, l.end
	backup := g
	backup.At, backup.Other, backup.EntriesAt = l.end, 1, l.end-l.entriesBlocks
	if err := checkFit(&g, l); err != nil {
		return err
	}
	if err := update(disk, backup.EntriesAt*l.block, append(l.padded(g.Entries), header(&backup, l.block)...)); err != nil {
		return fmt.Errorf("write the backup of the GPT: %w", err)
	}
	primary, at := header(&g, l.block), l.block
	if g.EntriesAt == 2 {
		primary = append(primary, l.padded(g.Entries)...)
	} else if err := update(disk, g.EntriesAt*l.block, l.padded(g.Entries)); err != nil {
		return fmt.Errorf("write the entries of the GPT: %w", err)
	}
	if err := update(disk, at, primary); err != nil {
		return fmt.Errorf("write the GPT: %w", err)
	}
	return writeProtective(disk, l)
}

// checkFit refuses to write a table whose partitions would be outside of it.
func checkFit(g *signature.GPT, l layout) error {
	if g.First > g.Last {
		return fmt.Errorf("the disk has no room for a GPT: %w", hal.ErrNoSpace)
	}
	if g.EntriesAt < 2 || g.EntriesAt+l.entriesBlocks > g.First {
		return fmt.Errorf("the entries of the GPT, at block %d, reach into its partitions: %w", g.EntriesAt, hal.ErrInvalid)
	}
	for i := range len(g.Entries) / signature.EntrySize {
		e := g.Entries[i*signature.EntrySize:]
		first, last := binary.LittleEndian.Uint64(e[32:]), binary.LittleEndian.Uint64(e[40:])
		if g.EntryUsed(i) && (first > last || first < uint64(g.First) || last > uint64(g.Last)) {
			return fmt.Errorf("partition %d at blocks %d to %d is not within %d to %d of its disk: %w", i+1, first, last, g.First, g.Last, hal.ErrInvalid)
		}
	}
	return nil
}

// writeProtective makes the protective MBR as long as the disk is. Boot code
// in it is kept.
func writeProtective(disk *opened, l layout) error {
	sector := make([]byte, 512)
	if _, err := disk.ReadAt(sector, 0); err != nil {
		return fmt.Errorf("read the protective MBR: %w", err)
	}
	entry := sector[446:462]
	for at := 446; at < 510; at += 16 {
		if sector[at+4] == 0xee {
			entry = sector[at : at+16]
		}
	}
	if entry[4] != 0xee { // a new one
		clear(sector)
		copy(entry, "\x00\x00\x02\x00\xee\xff\xff\xff\x01\x00\x00\x00")
	}
	binary.LittleEndian.PutUint32(entry[12:], uint32(min(l.end, 1<<32-1)))
	copy(sector[510:], "\x55\xaa")
	if err := update(disk, 0, sector); err != nil {
		return fmt.Errorf("write the protective MBR: %w", err)
	}
	return nil
}

// wholeGPT reports whether nothing is to be repaired.
func wholeGPT(disk *opened, table *signature.Table) bool {
	p, b := table.Primary, table.Backup
	return p != nil && b != nil && p.Other == disk.size/disk.block-1 && b.Other == 1 && bytes.Equal(p.Entries, b.Entries) && p.GUID == b.GUID &&
		p.First == b.First && p.Last == b.Last
}

// addEntry returns the table with a partition more.
func addEntry(g signature.GPT, block int64, e Extent, label string, id [16]byte) signature.GPT {
	g.Entries = bytes.Clone(g.Entries)
	b := g.Entries[(e.Number-1)*signature.EntrySize : e.Number*signature.EntrySize]
	clear(b)
	copy(b, "\xaf\x3d\xc6\x0f\x83\x84\x72\x47\x8e\x79\x3d\x69\xd8\x47\x7d\xe4") // linuxType
	copy(b[16:], id[:])
	binary.LittleEndian.PutUint64(b[32:], uint64(e.Start/block))
	binary.LittleEndian.PutUint64(b[40:], uint64((e.Start+e.Size)/block-1))
	for i, u := range utf16.Encode([]rune(label)) {
		binary.LittleEndian.PutUint16(b[56+2*i:], u)
	}
	return g
}

// freeEntry returns the number of an entry behind those in use, or of the
// first that is free; 0 for none.
func freeEntry(g *signature.GPT) int {
	count := len(g.Entries) / signature.EntrySize
	last, free := 0, 0
	for i := range count {
		if g.EntryUsed(i) {
			last = i + 1
		} else if free == 0 {
			free = i + 1
		}
	}
	if last < count {
		return last + 1
	}
	return free
}
