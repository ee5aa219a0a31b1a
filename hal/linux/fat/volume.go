package fat

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Limits. A volume beyond them is refused, so that a damaged one takes neither
// memory nor time without end.
const (
	maxVolume      = 2 << 30    // bytes
	maxDirBytes    = 65536 * 32 // of one directory, by the specification
	maxDirectories = 4096       // of a volume
	maxEntries     = 65536      // files and directories of a volume
	maxPatches     = 65536      // changes to directory entries
	maxDepth       = 32         // directories in each other
	blockBytes     = 64 << 10   // read and written at once
	atomicBytes    = 512        // what a disk writes whole or not at all
	minClusters    = 65525      // of a FAT32 volume, by the specification
	maxCluster     = 0x0fffffef // the last number that is no mark
)

// Entries of a FAT. The highest four bits are not part of them and are kept.
const (
	entryMask    = 0x0fffffff
	freeCluster  = 0
	firstCluster = 2
	badCluster   = 0x0ffffff7
	endOfChain   = 0x0ffffff8 // and above
	lastCluster  = 0x0fffffff // the mark that is written

	cleanShutdown = 0x08000000 // of entry 1: unmounted cleanly
)

// Offsets in the boot sector and in FSInfo.
const (
	bootState  = 65 // BS_Reserved1, which Windows NT and Linux keep a state in
	stateDirty = 1

	infoFree = 488
	infoNext = 492
)

// volume is what the boot sector says.
type volume struct {
	disk         io.ReaderAt
	bytes        int64 // of the whole volume
	media        byte  // repeated in entry 0 of the FATs
	state        byte  // at bootState
	fatAt        int64 // of the first FAT
	fatBytes     int64 // of one
	fats         int   // 1 or 2
	infoAt       int64 // of FSInfo, 0 for none
	dataAt       int64 // of cluster 2
	clusterBytes int64
	clusters     uint32 // their numbers start at 2
	root         uint32
}

func readVolume(disk io.ReaderAt, size int64) (*volume, error) {
	var b [512]byte
	if size < int64(len(b)) {
		return nil, fmt.Errorf("read the boot sector of a volume of %d bytes: %w", size, ErrNotFAT32)
	}
	if _, err := disk.ReadAt(b[:], 0); err != nil {
		return nil, fmt.Errorf("read the boot sector: %w", err)
	}
	le := binary.LittleEndian
	sector := int64(le.Uint16(b[11:]))
	perCluster, reserved, fatSectors := int64(b[13]), int64(le.Uint16(b[14:])), int64(le.Uint32(b[36:]))
	if b[510] != 0x55 || b[511] != 0xaa || !powerOfTwo(sector, 512, 4096) || !powerOfTwo(perCluster, 1, 128) {
		return nil, fmt.Errorf("the boot sector has no signature, or impossible sizes: %w", ErrNotFAT32)
	}
	old := le.Uint16(b[17:]) | le.Uint16(b[19:]) | le.Uint16(b[22:]) // of FAT12 and FAT16
	if version := le.Uint16(b[42:]); old != 0 || version != 0 || b[16] < 1 || b[16] > 2 || le.Uint16(b[40:])&0x80 != 0 {
		return nil, fmt.Errorf("the boot sector is that of FAT12 or FAT16, or it has FATs that are not mirrored: %w", ErrNotFAT32)
	}
	v := &volume{
		disk: disk, bytes: int64(le.Uint32(b[32:])) * sector, media: b[21], state: b[bootState],
		fatAt: reserved * sector, fatBytes: fatSectors * sector, fats: int(b[16]),
		clusterBytes: perCluster * sector, root: le.Uint32(b[44:]),
	}
	v.dataAt = v.fatAt + int64(v.fats)*v.fatBytes
	if n := int64(le.Uint16(b[48:])); n > 0 && n < reserved {
		v.infoAt = n * sector
	}
	count := (v.bytes - v.dataAt) / v.clusterBytes
	if v.bytes > size || reserved == 0 || count < minClusters || count+firstCluster > maxCluster || (count+firstCluster)*4 > v.fatBytes {
		return nil, fmt.Errorf("the boot sector tells of %d bytes of %d, with %d clusters: %w", v.bytes, size, max(count, 0), ErrNotFAT32)
	}
	v.clusters = uint32(count)
	return v, nil
}

func powerOfTwo(n, low, high int64) bool { return n >= low && n <= high && n&(n-1) == 0 }

// dirty looks at both marks.
func (v *volume) dirty() (bool, error) {
	var b [4]byte
	if _, err := v.disk.ReadAt(b[:], v.fatAt+4); err != nil {
		return false, fmt.Errorf("read the first FAT: %w", err)
	}
	return v.state&stateDirty != 0 || binary.LittleEndian.Uint32(b[:])&cleanShutdown == 0, nil
}

func (v *volume) valid(cluster uint32) bool {
	return cluster >= firstCluster && cluster-firstCluster < v.clusters
}

func (v *volume) clusterAt(cluster uint32) int64 {
	return v.dataAt + int64(cluster-firstCluster)*v.clusterBytes
}

// tableBytes is the part of a FAT that is in use, in whole atoms.
func (v *volume) tableBytes() int64 {
	return (int64(v.clusters+firstCluster)*4 + atomicBytes - 1) / atomicBytes * atomicBytes
}

// copyAt is the place of a FAT: 0 for the first.
func (v *volume) copyAt(n int) int64 { return v.fatAt + int64(n)*v.fatBytes }

// equalTables reports whether both FATs say the same.
func (v *volume) equalTables() (bool, error) {
	equal := true
	err := v.compareTables(func(first, second []byte, _ int64) error {
		equal = equal && string(first) == string(second)
		return nil
	})
	return equal, err
}

// compareTables hands both FATs to f, block by block. The offset is from their
// starts.
func (v *volume) compareTables(f func(first, second []byte, off int64) error) error {
	if v.fats < 2 {
		return nil
	}
	var blocks [2][]byte
	for off := int64(0); off < v.tableBytes(); off += blockBytes {
		for i := range blocks {
			if blocks[i] == nil {
				blocks[i] = make([]byte, blockBytes)
			}
			blocks[i] = blocks[i][:min(blockBytes, v.tableBytes()-off)]
			if _, err := v.disk.ReadAt(blocks[i], v.copyAt(i)+off); err != nil {
				return fmt.Errorf("read FAT %d at %d: %w", i+1, off, err)
			}
		}
		if err := f(blocks[0], blocks[1], off); err != nil {
			return err
		}
	}
	return nil
}
