package volume

import (
	"encoding/binary"
	"testing"

	"machined/hal/signature"
)

// FuzzProvision gives Provision tables whose checksums are right and whose
// numbers are anything. It must not write into a partition of such a table,
// whatever else the table says, nor outside of the disk.
func FuzzProvision(f *testing.F) {
	const size = 64 * mib
	end := uint64(size/512 - 1)
	f.Add(end, uint64(34), end-33, uint64(2), uint64(2048), uint64(10239), uint64(10240), uint64(14335), uint16(128))
	f.Add(end, uint64(34), end-33, uint64(2), uint64(2048), uint64(10239), uint64(4096), uint64(14335), uint16(128))
	f.Add(uint64(9999), uint64(6), end-33, uint64(2), uint64(6), uint64(7), uint64(10240), end-1, uint16(128))
	f.Add(end, uint64(34), end-33, uint64(100), uint64(2048), uint64(10239), uint64(5), uint64(1), uint16(4))
	f.Add(end, uint64(34), end, uint64(34), uint64(2048), uint64(10239), end-2, end, uint16(512))
	f.Fuzz(func(t *testing.T, other, first, last, entriesAt, start1, end1, start2, end2 uint64, count uint16) {
		disk := newRAMDisk(size)
		n := int64(count%600) + 1
		entries := make([]byte, n*signature.EntrySize)
		parts := [][2]uint64{{start1, end1}, {start2, end2}}
		for i, p := range parts[:min(n, 2)] {
			e := entries[i*signature.EntrySize:]
			copy(e, "another type, a GUID")
			binary.LittleEndian.PutUint64(e[32:], p[0])
			binary.LittleEndian.PutUint64(e[40:], p[1])
		}
		g := signature.GPT{At: 1, Other: int64(other), First: int64(first), Last: int64(last), EntriesAt: int64(entriesAt), Entries: entries}
		disk.apply(512, header(&g, 512))
		if at := entriesAt * 512; entriesAt > 1 && at < size-uint64(len(entries)) {
			disk.apply(int64(at), entries)
		}
		protective := make([]byte, 512)
		copy(protective[446:], "\x00\x00\x02\x00\xee\xff\xff\xff\x01\x00\x00\x00\xff\xff\xff\xff")
		copy(protective[510:], "\x55\xaa")
		disk.apply(0, protective)
		table := readTable(t, disk)
		err := provision(disk, simpleTemplates(), false, state, ephemeral)
		if err == nil {
			mustFind(t, disk, "STATE")
			mustFind(t, disk, "EPHEMERAL")
		}
		for _, o := range disk.record {
			for _, p := range table.Partitions {
				if o.data != nil && p.Size > 0 && o.off < p.Start+p.Size && p.Start < o.off+int64(len(o.data)) {
					t.Fatalf("Provision = %v and wrote %d bytes at %d, in %+v", err, len(o.data), o.off, p)
				}
			}
		}
	})
}
