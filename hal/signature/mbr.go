package signature

import "encoding/binary"

const (
	mbrEntries    = 446 // offset of four entries of 16 bytes
	mbrID         = 440
	mbrProtective = 0xee
	// maxLogical bounds the chain of an extended partition, which may go in
	// circles.
	maxLogical = 64
)

// mbrEntry is one of the four.
type mbrEntry struct {
	kind         byte
	start, count uint32 // sectors
}

// parseMBR reads the first sector. A boot sector of a file system, which has
// the same signature, is no MBR, and neither is what has no state or a wrong
// one where the active partition is marked.
func parseMBR(b []byte) ([4]mbrEntry, bool) {
	var entries [4]mbrEntry
	if len(b) < 512 || b[510] != 0x55 || b[511] != 0xaa {
		return entries, false
	}
	if _, isFAT := parseFAT(b); isFAT || string(b[3:11]) == "NTFS    " || string(b[3:11]) == "EXFAT   " {
		return entries, false
	}
	for i := range entries {
		e := b[mbrEntries+16*i:]
		if e[0]&0x7f != 0 {
			return [4]mbrEntry{}, false
		}
		entries[i] = mbrEntry{kind: e[4], start: binary.LittleEndian.Uint32(e[8:]), count: binary.LittleEndian.Uint32(e[12:])}
	}
	return entries, true
}

func (e mbrEntry) used() bool     { return e.kind != 0 && e.count != 0 }
func (e mbrEntry) extended() bool { return e.kind == 0x05 || e.kind == 0x0f || e.kind == 0x85 }

func (e mbrEntry) partition(number int, base, block int64) Partition {
	return Partition{
		Number: number, Start: (base + int64(e.start)) * block, Size: int64(e.count) * block, Type: hexText([]byte{e.kind}, lowerDigits),
	}
}

// logical follows the chain of an extended partition; logical partitions are
// numbered from 5.
func (d *device) logical(extended mbrEntry, number int, block int64) []Partition {
	var out []Partition
	base, next := int64(extended.start), int64(extended.start)
	for range maxLogical {
		entries, ok := parseMBR(d.at(next*block, 512))
		if !ok {
			break
		}
		if entries[0].used() && !entries[0].extended() {
			out = append(out, entries[0].partition(number, next, block))
			number++
		}
		if !entries[1].extended() || entries[1].start == 0 {
			break
		}
		next = base + int64(entries[1].start)
	}
	return out
}
