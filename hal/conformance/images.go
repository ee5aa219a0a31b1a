package conformance

import (
	"encoding/binary"
	"fmt"
	"os"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/diskfs/go-diskfs/partition/mbr"
)

const sector = 512 // bytes

// MakeImage makes the file of a disk of size bytes, for rigs that have real
// content. What is in its partitions begins as such a file system does, and is
// no more than that.
func MakeImage(path string, kind DiskKind, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		return err
	}
	if err := fillImage(f, kind, size); err != nil {
		return fmt.Errorf("make the image %s: %w", path, err)
	}
	return f.Close()
}

func fillImage(f *os.File, kind DiskKind, size int64) error {
	state := []*gpt.Partition{gptPartition(2, "STATE", gpt.LinuxFilesystem, 5, 30)}
	switch kind {
	case BlankDisk:
		return nil
	case ImageGPT:
		return imageGPT(f, size)
	case ImageMBR:
		return imageMBR(f, size)
	case BlankState:
		return imageGPT(f, size, state...)
	case ForeignState:
		if err := imageGPT(f, size, state...); err != nil {
			return err
		}
		return writePieces(f, piece{5*mib + 4086, []byte("SWAPSPACE2")}, piece{5*mib + 1024, []byte{1}})
	case TwoStates:
		return imageGPT(f, size, append(state, gptPartition(3, "STATE", gpt.LinuxFilesystem, 30, 55))...)
	case DamagedGPT:
		if err := imageGPT(f, size); err != nil {
			return err
		}
		return writePieces(f, piece{sector, []byte("no header")}, piece{size - sector, []byte("no header")})
	case WholeDisk:
		return writePieces(f, piece{1024, ext4Super("STATE")})
	}
	return writePieces(f, piece{20_000, []byte("something that nobody knows")})
}

type piece struct {
	off  int64
	data []byte
}

func writePieces(f *os.File, pieces ...piece) error {
	for _, p := range pieces {
		if _, err := f.WriteAt(p.data, p.off); err != nil {
			return err
		}
	}
	return nil
}

func gptPartition(number int, name string, kind gpt.Type, from, to uint64) *gpt.Partition {
	return &gpt.Partition{
		Index: number, Name: name, Type: kind, Start: from * mib / sector, End: to*mib/sector - 1, Size: (to - from) * mib,
	}
}

func imageGPT(f *os.File, size int64, more ...*gpt.Partition) error {
	table := &gpt.Table{
		LogicalSectorSize: sector, PhysicalSectorSize: sector, ProtectiveMBR: true,
		Partitions: append([]*gpt.Partition{gptPartition(1, "EFI", gpt.EFISystemPartition, 1, 5)}, more...),
	}
	w, err := file.New(f, false).Writable()
	if err != nil {
		return err
	}
	if err := table.Write(w, size); err != nil {
		return err
	}
	return writePieces(f, piece{mib, fatBoot("BOOT")})
}

func imageMBR(f *os.File, size int64) error {
	table := &mbr.Table{
		LogicalSectorSize: sector, PhysicalSectorSize: sector,
		Partitions: []*mbr.Partition{{Index: 1, Bootable: true, Type: mbr.Fat32LBA, Start: mib / sector, Size: 4 * mib / sector}},
	}
	w, err := file.New(f, false).Writable()
	if err != nil {
		return err
	}
	if err := table.Write(w, size); err != nil {
		return err
	}
	return writePieces(f, piece{mib, fatBoot("BOOT")})
}

// fatBoot is the boot sector of a FAT16 of 4 MiB.
func fatBoot(label string) []byte {
	b := make([]byte, sector)
	copy(b, "\xeb\x3c\x90machined\x00\x02\x01\x01\x00\x02\x00\x02\x00\x20\xf8\x20\x00")
	copy(b[0x26:], "\x29\x78\x56\x34\x12           FAT16   ")
	copy(b[0x2b:], label)
	copy(b[510:], "\x55\xaa")
	return b
}

// ext4Super is a superblock that has what an ext4 is recognised by.
func ext4Super(label string) []byte {
	b := make([]byte, 1024)
	binary.LittleEndian.PutUint16(b[0x38:], 0xef53)
	binary.LittleEndian.PutUint32(b[0x5c:], 0x4)  // has a journal
	binary.LittleEndian.PutUint32(b[0x60:], 0x40) // extents
	copy(b[0x78:], label)
	return b
}
