package signature

import (
	"cmp"
	"encoding/binary"
	"slices"

	"machined/hal"
)

// Table is a partition table as it was found.
type Table struct {
	Kind       hal.Table
	Size       int64       // of the disk, in bytes
	Block      int64       // bytes that addresses in the table count in
	ID         string      // GUID, or the eight digits of an MBR's signature
	Partitions []Partition // by Number

	// Damage says what is wrong with the table as a whole, "" for nothing. A
	// GPT of which one copy is left is not damaged in that sense.
	Damage string
	// Hybrid says that there are partitions in a GPT's protective MBR.
	Hybrid bool
	// Primary and Backup are a GPT's copies, nil for one that is damaged. That
	// the two say the same is not checked.
	Primary, Backup *GPT
}

// Partition is an entry of a table.
type Partition struct {
	Number      int
	Start, Size int64  // bytes; size 0 where the entry makes no sense
	Type        string // GUID in lower case, or two hex digits in an MBR
	Label       string // of a GPT
	ID          string // GUID of a GPT
}

// ReadTable reads the partition table of a disk of size bytes. block is the
// size in bytes of its logical blocks; 0 when that is not known.
func ReadTable(r Reader, size, block int64) (Table, error) {
	d := device{r: r, size: size}
	d.head = d.read(0, int(min(max(size, 0), 32<<10)))
	t := d.table(block)
	if d.err != nil {
		return Table{}, d.err
	}
	return t, nil
}

func (d *device) table(block int64) Table {
	if block == 0 {
		block = 512
		if !d.has(512, gptMagic) && d.has(4096, gptMagic) {
			block = 4096
		}
	}
	t := Table{Block: block, Size: d.size}
	if block < 512 || block > 64<<10 || d.size < 2*block {
		return t
	}
	entries, ok := parseMBR(d.at(0, 512))
	protective, others := false, false
	for _, e := range entries {
		protective = protective || e.kind == mbrProtective
		others = others || e.used() && e.kind != mbrProtective
	}
	switch {
	case ok && others && !protective:
		t.readMBR(d, entries)
	case d.gpt(&t, protective):
		t.Hybrid = others
	case ok:
		t.readMBR(d, entries)
	}
	return t
}

// gpt reports whether the disk has, or had, a GPT. Without the protective MBR
// neither firmware nor kernel takes it for one, but somebody may want it back.
func (d *device) gpt(t *Table, protective bool) bool {
	t.Primary = d.readGPT(1, t.Block)
	end := d.size/t.Block - 1
	if t.Primary != nil {
		end = t.Primary.Other
	}
	if end > 1 && end < d.size/t.Block {
		t.Backup = d.readGPT(end, t.Block)
	}
	g := t.Primary
	if g == nil {
		g = t.Backup
	}
	switch {
	case g == nil && !protective:
		return false
	case g == nil:
		t.Damage = "both copies of the GPT are damaged"
	case !protective:
		t.Damage = "the GPT has no protective MBR"
	}
	t.Kind = hal.GPT
	if g != nil {
		t.ID, t.Partitions = guidText(g.GUID[:]), g.partitions(t.Block)
	}
	return true
}

func (t *Table) readMBR(d *device, entries [4]mbrEntry) {
	t.Kind = hal.MBR
	var id [4]byte
	binary.BigEndian.PutUint32(id[:], binary.LittleEndian.Uint32(d.at(mbrID, 4)))
	t.ID = hexText(id[:], lowerDigits)
	var logical []Partition
	for i, e := range entries {
		if e.used() {
			t.Partitions = append(t.Partitions, e.partition(i+1, 0, t.Block))
		}
		if e.used() && e.extended() {
			logical = append(logical, d.logical(e, 5+len(logical), t.Block)...)
		}
	}
	t.Partitions = append(t.Partitions, logical...)
}

// alignment of what is made, in bytes: flash erases in units up to that size.
const alignment = 1 << 20

// Largest returns the largest space that no partition claims, in bytes from
// the start of the disk, in whole MiB. A GPT is taken to reach to the end of
// the disk, even if it was made for a smaller one.
func (t *Table) Largest() (start, length int64) {
	from, to := int64(alignment), t.Size
	switch t.Kind {
	case hal.GPT:
		entries := int64(128 * EntrySize)
		if g := cmp.Or(t.Primary, t.Backup); g != nil {
			from, entries = max(from, g.First*t.Block), int64(len(g.Entries))
		}
		to = t.Size/t.Block*t.Block - t.Block - (entries+t.Block-1)/t.Block*t.Block
	case hal.MBR:
		to = min(to, (1<<32-1)*t.Block) // it counts in 32 bits
	}
	claimed := slices.Clone(t.Partitions)
	slices.SortFunc(claimed, func(a, b Partition) int { return cmp.Compare(a.Start, b.Start) })
	for _, p := range append(claimed, Partition{Start: to}) {
		at := (from + alignment - 1) / alignment * alignment
		if free := (min(p.Start, to) - at) / alignment * alignment; free > length {
			start, length = at, free
		}
		from = max(from, p.Start+p.Size)
	}
	return start, length
}
