package piboot

import (
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"

	"machined/tools/piboot/fatfs"
)

const (
	sectorBytes    = 512
	partitionTable = 446 // offset of the four entries in the first sector
	partitionEntry = 16
)

// OpenImage opens the boot partition of a card image: the first one of its MBR
// that has a FAT type. It is read-only, looks names up without regard to case,
// and stays usable until the closer is closed. The image must not be written
// meanwhile.
func OpenImage(path string) (boot fs.FS, closer io.Closer, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("piboot: opening the card image: %w", err)
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, nil, fmt.Errorf("piboot: sizing the card image %s: %w", path, err)
	}
	start, length, err := bootPartition(f, size)
	if err != nil {
		return nil, nil, fmt.Errorf("piboot: card image %s: %w", path, err)
	}
	volume, err := fatfs.Open(io.NewSectionReader(f, start, length), length)
	if err != nil {
		return nil, nil, fmt.Errorf("piboot: the boot partition at byte %d of %s: %w; a real board flashes its LED twice long, once short", start, path, err)
	}
	return volume, f, nil
}

// bootPartition gives the place of the first FAT partition, in bytes.
func bootPartition(r io.ReaderAt, size int64) (start, length int64, err error) {
	var mbr [sectorBytes]byte
	if _, err := r.ReadAt(mbr[:], 0); err != nil {
		return 0, 0, fmt.Errorf("reading the partition table: %w", err)
	}
	if mbr[510] != 0x55 || mbr[511] != 0xaa {
		return 0, 0, fmt.Errorf("the first sector has no MBR signature; is it a card image?")
	}
	le := binary.LittleEndian
	for i := range 4 {
		e := mbr[partitionTable+i*partitionEntry:][:partitionEntry]
		switch e[4] {
		case 0x01, 0x04, 0x06, 0x0b, 0x0c, 0x0e: // FAT12 to FAT32, with CHS or LBA
		default:
			continue
		}
		start, length = int64(le.Uint32(e[8:]))*sectorBytes, int64(le.Uint32(e[12:]))*sectorBytes
		if start == 0 || length == 0 || start+length > size {
			return 0, 0, fmt.Errorf("partition %d has bytes %d to %d, the image has %d", i+1, start, start+length, size)
		}
		return start, length, nil
	}
	return 0, 0, fmt.Errorf("the partition table has no FAT partition")
}
