package signature

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	// EntrySize is the size in bytes of an entry in a GPT. Linux knows no
	// other.
	EntrySize = 128
	// maxEntries bounds what is read of an array of entries. 128 are usual.
	maxEntries = 512
	headerSize = 92
	gptMagic   = "EFI PART\x00\x00\x01\x00" // revision 1.0
)

// GPT is one copy of a GUID partition table (UEFI specification, 5.3) whose
// checksums are right. All addresses are in blocks of the disk.
type GPT struct {
	At, Other   int64 // this header, and that of the other copy
	First, Last int64 // blocks that partitions may use
	GUID        [16]byte
	EntriesAt   int64
	Entries     []byte // EntrySize bytes each, at most 64 KiB
}

// ParseHeader reads the header of a GPT, one block of a disk of blocks blocks,
// and returns it without its entries, of which there are count, with their
// checksum.
func ParseHeader(b []byte, blocks int64) (g GPT, count int, sum uint32, ok bool) {
	le := binary.LittleEndian
	if len(b) < headerSize || string(b[:len(gptMagic)]) != gptMagic {
		return GPT{}, 0, 0, false
	}
	size := le.Uint32(b[12:])
	if size < headerSize || int64(size) > int64(len(b)) {
		return GPT{}, 0, 0, false
	}
	crc := crc32.ChecksumIEEE(b[:16])
	crc = crc32.Update(crc, crc32.IEEETable, []byte{0, 0, 0, 0}) // in the checksum's own place
	crc = crc32.Update(crc, crc32.IEEETable, b[20:size])
	n := le.Uint32(b[80:])
	if crc != le.Uint32(b[16:]) || le.Uint32(b[84:]) != EntrySize || n == 0 || n > maxEntries {
		return GPT{}, 0, 0, false
	}
	for _, at := range [...]int{24, 32, 40, 48, 72} {
		if le.Uint64(b[at:]) >= 1<<62 {
			return GPT{}, 0, 0, false
		}
	}
	g = GPT{
		At: int64(le.Uint64(b[24:])), Other: int64(le.Uint64(b[32:])), First: int64(le.Uint64(b[40:])), Last: int64(le.Uint64(b[48:])),
		EntriesAt: int64(le.Uint64(b[72:])),
	}
	copy(g.GUID[:], b[56:])
	return g, int(n), le.Uint32(b[88:]), g.First <= g.Last && g.First < blocks
}

// readGPT reads the copy whose header is in block at.
func (d *device) readGPT(at, block int64) *GPT {
	blocks := d.size / block
	g, count, sum, ok := ParseHeader(d.at(at*block, int(block)), blocks)
	if !ok || g.At != at || g.EntriesAt < 2 || g.EntriesAt >= blocks {
		return nil
	}
	g.Entries = d.at(g.EntriesAt*block, count*EntrySize)
	if g.Entries == nil || crc32.ChecksumIEEE(g.Entries) != sum {
		return nil
	}
	return &g
}

// EntryUsed reports whether entry i of the table names a partition.
func (g *GPT) EntryUsed(i int) bool { return !zero(g.Entries[i*EntrySize : i*EntrySize+16]) }

// partitions returns the used entries. One that ends before it starts, or
// whose numbers are beyond all disks, has the size 0.
func (g *GPT) partitions(block int64) []Partition {
	var out []Partition
	for i := range len(g.Entries) / EntrySize {
		if !g.EntryUsed(i) {
			continue
		}
		e := g.Entries[i*EntrySize : (i+1)*EntrySize]
		p := Partition{Number: i + 1, Type: guidText(e[:16]), ID: guidText(e[16:32]), Label: utf16Text(e[56:128])}
		first, last := binary.LittleEndian.Uint64(e[32:]), binary.LittleEndian.Uint64(e[40:])
		if limit := uint64(1) << 62 / uint64(block); first <= last && last < limit {
			p.Start, p.Size = int64(first)*block, int64(last-first+1)*block
		}
		out = append(out, p)
	}
	return out
}
