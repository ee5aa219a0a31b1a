// Package volume makes the STATE partition in the free space of the disk that
// the node was booted from.
//
// The order of its writes is what makes it safe to cut the power anywhere: the
// file system first, into space that no partition claims, and only when that
// is on the disk the partition table's entry. A partition that exists is
// therefore complete.
package volume

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/diskfs/go-diskfs/backend"
	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/diskfs/go-diskfs/partition/mbr"
)

const (
	// Name is the partition's name on GPT. On MBR, which has none, STATE is
	// partition 2.
	Name = "STATE"
	// Size of the partition in bytes, less on a disk that has less room.
	Size = 128 << 20
	// MinSize is what a disk must have free: the template and some.
	MinSize = 32 << 20

	sectorSize = 512
	alignment  = 1 << 20 // bytes; flash erases in units up to this size
)

// Extent is where a partition is.
type Extent struct {
	Number int
	Start  int64 // bytes
	Size   int64 // bytes
}

// Disk is a whole block device. Sync returns when all writes have reached it.
type Disk interface {
	backend.WritableFile
	Sync() error
}

var (
	// ErrNoState says that the disk has no STATE partition yet.
	ErrNoState = errors.New("there is no STATE partition")
	// ErrNoRoom says that there is no free space for STATE.
	ErrNoRoom = errors.New("no room for the STATE partition")
)

// Find returns the STATE partition of disk, which has size bytes, or
// ErrNoState.
func Find(disk Disk, size int64) (Extent, error) {
	table, err := readTable(disk, size)
	if err != nil {
		return Extent{}, fmt.Errorf("read the partition table: %w", err)
	}
	if e, ok := table.state(); ok {
		return e, nil
	}
	return Extent{}, ErrNoState
}

// Create makes the STATE partition of a disk that Find found none on. template
// opens the gzipped image of an empty file system.
func Create(disk Disk, size int64, template func() (io.ReadCloser, error)) (Extent, error) {
	table, err := readTable(disk, size)
	if err != nil {
		return Extent{}, fmt.Errorf("read the partition table: %w", err)
	}
	if e, ok := table.state(); ok {
		return e, nil // there must never be two
	}
	e, err := table.free()
	if err != nil {
		return Extent{}, err
	}
	if err := writeTemplate(disk, e, template); err != nil {
		return Extent{}, fmt.Errorf("write the file system of STATE: %w", err)
	}
	if err := table.add(disk, e); err != nil {
		return Extent{}, fmt.Errorf("add STATE to the partition table: %w", err)
	}
	return e, disk.Sync()
}

// table is a partition table of either kind.
type table interface {
	state() (Extent, bool)
	free() (Extent, error)
	add(disk Disk, e Extent) error
}

// readTable reads the partition table. A GPT of which the backup alone is left,
// as after a power cut between two writes of Create, is made whole again: Linux
// by itself does not look at the backup.
func readTable(disk Disk, size int64) (table, error) {
	g, gptErr := gpt.Read(disk, sectorSize, sectorSize)
	if gptErr == nil {
		if g.RecoveredFromBackup {
			if err := g.Write(disk, size); err != nil {
				return nil, fmt.Errorf("repair it from its backup: %w", err)
			}
		}
		return &gptTable{table: g, size: size}, nil
	}
	m, err := mbr.Read(disk, sectorSize, sectorSize)
	if err != nil {
		return nil, err
	}
	for _, p := range m.Partitions {
		if p.Type == mbr.GPTProtective {
			// The space behind its entry only looks free.
			return nil, gptErr
		}
	}
	return &mbrTable{table: m, size: size}, nil
}

// gap returns the extent between end and limit, at most Size.
func gap(number int, end, limit int64) (Extent, error) {
	if end == 0 {
		return Extent{}, fmt.Errorf("the disk has no boot partition, so it is not ours: %w", ErrNoRoom)
	}
	start := (end + alignment - 1) / alignment * alignment
	size := min(Size, (limit-start)/alignment*alignment)
	if size < MinSize {
		return Extent{}, fmt.Errorf("%d bytes are free behind the last partition and %d are needed: %w", max(size, 0), MinSize, ErrNoRoom)
	}
	return Extent{Number: number, Start: start, Size: size}, nil
}

type gptTable struct {
	table *gpt.Table
	size  int64
}

func (t *gptTable) state() (Extent, bool) {
	for _, p := range t.table.Partitions {
		if p.Name == Name && p.Type != gpt.Unused {
			return Extent{Number: p.Index, Start: int64(p.Start) * sectorSize, Size: int64(p.End-p.Start+1) * sectorSize}, true
		}
	}
	return Extent{}, false
}

func (t *gptTable) free() (Extent, error) {
	// The image may have been written to a larger disk.
	t.table.Resize(uint64(t.size))
	var end int64
	number := 0
	for _, p := range t.table.Partitions {
		if p.Type != gpt.Unused {
			end = max(end, int64(p.End+1)*sectorSize)
			number = max(number, p.Index)
		}
	}
	return gap(number+1, end, int64(t.table.LastDataSector()+1)*sectorSize)
}

func (t *gptTable) add(disk Disk, e Extent) error {
	t.table.Partitions = append(t.table.Partitions, &gpt.Partition{
		Index: e.Number, Name: Name, Type: gpt.LinuxFilesystem,
		Start: uint64(e.Start / sectorSize), End: uint64((e.Start+e.Size)/sectorSize) - 1, Size: uint64(e.Size),
	})
	return t.table.Write(disk, t.size)
}

type mbrTable struct {
	table *mbr.Table
	size  int64
}

// mbrNumber is STATE's place in an MBR, behind the boot partition.
const mbrNumber = 2

func (t *mbrTable) state() (Extent, bool) {
	for _, p := range t.table.Partitions {
		if p.Index == mbrNumber && p.Type == mbr.Linux {
			return Extent{Number: p.Index, Start: int64(p.Start) * sectorSize, Size: int64(p.Size) * sectorSize}, true
		}
	}
	return Extent{}, false
}

func (t *mbrTable) free() (Extent, error) {
	var end int64
	for _, p := range t.table.Partitions {
		if p.Type == mbr.Empty {
			continue
		}
		if p.Index >= mbrNumber {
			return Extent{}, fmt.Errorf("partition %d of type %#x is in its place, and is left alone: %w", p.Index, byte(p.Type), ErrNoRoom)
		}
		end = max(end, (int64(p.Start)+int64(p.Size))*sectorSize)
	}
	// An MBR counts sectors in 32 bits.
	return gap(mbrNumber, end, min(t.size, int64(1<<32-1)*sectorSize))
}

func (t *mbrTable) add(disk Disk, e Extent) error {
	// The table has four places, and an entry's place is its number.
	t.table.Partitions[e.Number-1] = &mbr.Partition{
		Index: e.Number, Type: mbr.Linux, Start: uint32(e.Start / sectorSize), Size: uint32(e.Size / sectorSize),
	}
	return t.table.Write(disk, t.size)
}

// writeTemplate writes the file system and waits until it is on the disk. Zero
// blocks are written too: the space may hold remains of another file system,
// which would turn up inside of this one.
func writeTemplate(disk Disk, e Extent, template func() (io.ReadCloser, error)) error {
	f, err := template()
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	// Not a byte more than fits: behind it may be the backup of the GPT.
	to := io.NewOffsetWriter(disk, e.Start)
	if _, err := io.CopyBuffer(to, io.LimitReader(z, e.Size), make([]byte, 256<<10)); err != nil {
		return err
	}
	// The template's checksum is compared at its very end.
	var more [1]byte
	switch _, err := io.ReadFull(z, more[:]); {
	case err == nil:
		return fmt.Errorf("the template is larger than the partition of %d bytes", e.Size)
	case !errors.Is(err, io.EOF):
		return err
	}
	return disk.Sync()
}

// Open opens a disk for Find and Create. O_EXCL would fail: the boot partition of the
// same disk is mounted.
func Open(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, 0, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, size, nil
}
