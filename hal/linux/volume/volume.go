// Package volume finds and makes the volumes of a node, such as STATE: ext4 in
// labelled partitions.
//
// The order of its writes is what makes it safe to cut the power anywhere: the
// file system first, into space that no partition claims, and only when that
// is on the disk the partition table's entry. A partition that exists is
// therefore complete. Of a GPT one copy is whole at any time, and the next call
// repairs the other.
package volume

import (
	"fmt"
	"io"
	"os"

	"machined/hal"
	"machined/hal/signature"
)

const (
	mib = 1 << 20
	// linuxType is a Linux file system in a GPT, mbrType in an MBR.
	linuxType = "0fc63daf-8483-4772-8e79-3d69d8477de4"
	mbrType   = "83"
)

// Extent is where a partition is.
type Extent struct {
	Number      int
	Start, Size int64 // bytes
}

// mbrPlace is a volume's number in an MBR, which has no names: behind the boot
// partition. 0 for a volume that has none.
func mbrPlace(label string) int {
	switch label {
	case "STATE":
		return 2
	case "EPHEMERAL":
		return 3
	}
	return 0
}

// Find returns the partition of the volume label on disk, which has size
// bytes. hal.ErrNotFound when there is none that is complete: Provision then
// makes it, or says what is in its way. It is quick: it reads the table and
// the partition's start.
func Find(disk io.ReaderAt, size int64, label string) (Extent, error) {
	table, err := signature.ReadTable(disk, size, 0)
	if err != nil {
		return Extent{}, fmt.Errorf("read the partition table to find %s: %w", label, err)
	}
	named := candidates(&table, label)
	switch {
	case len(named) > 1:
		return Extent{}, fmt.Errorf("partitions %d and %d are both named %s: rename one: %w", named[0].Number, named[1].Number, label, hal.ErrInvalid)
	case table.Damage != "":
		return Extent{}, fmt.Errorf("find %s: %s: %w", label, table.Damage, hal.ErrNotFound)
	case len(named) == 0 || !ours(&table, named[0]):
		return Extent{}, fmt.Errorf("find %s: %w", label, hal.ErrNotFound)
	}
	e := Extent{Number: named[0].Number, Start: named[0].Start, Size: named[0].Size}
	found, err := look(section{ReaderAt: disk, start: e.Start, size: e.Size}, e.Size, label)
	if err != nil {
		return Extent{}, fmt.Errorf("read partition %d to find %s: %w", e.Number, label, err)
	}
	if found.marked || !found.made {
		return Extent{}, fmt.Errorf("partition %d holds no finished ext4 of the label %s: %w", e.Number, label, hal.ErrNotFound)
	}
	return e, nil
}

// candidates returns the partitions that the volume's name or place speaks for.
func candidates(table *signature.Table, label string) []signature.Partition {
	var found []signature.Partition
	for _, p := range table.Partitions {
		if table.Kind == hal.GPT && p.Label == label || table.Kind == hal.MBR && p.Number == mbrPlace(label) {
			found = append(found, p)
		}
	}
	return found
}

// ours reports whether a partition has the type and the size of a volume.
func ours(table *signature.Table, p signature.Partition) bool {
	want := linuxType
	if table.Kind == hal.MBR {
		want = mbrType
	}
	return p.Type == want && p.Size > 0
}

// sight is what is in a volume's partition.
type sight struct {
	content signature.Content
	made    bool // the volume's file system
	marked  bool // it was begun by us; with made, that is to be taken back
}

func look(partition io.ReaderAt, size int64, label string) (sight, error) {
	c, err := signature.Read(partition, size)
	if err != nil {
		return sight{}, err
	}
	s := sight{content: c, made: c.FS == "ext4" && c.Label == label}
	first := make([]byte, markerSize)
	if size < markerSize {
		return s, nil
	}
	if _, err := partition.ReadAt(first, 0); err != nil {
		return sight{}, err
	}
	s.marked = string(first) == string(marker(label))
	return s, nil
}

// Open opens a disk for Find, and returns its size in bytes.
func Open(path string) (*os.File, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, noDevice(err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, size, nil
}

// section reads a part of a disk.
type section struct {
	io.ReaderAt
	start, size int64
}

func (s section) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(b)) > s.size {
		return 0, io.ErrUnexpectedEOF
	}
	return s.ReaderAt.ReadAt(b, s.start+off)
}
