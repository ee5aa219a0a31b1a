package volume

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"machined/hal"
)

// Disk is a whole block device, or a partition. Sync returns when all writes
// have reached it.
type Disk interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
	// Reread has the kernel read the partition table again.
	Reread() error
}

// opened is a disk with what has to be known of it.
type opened struct {
	Disk
	path  string
	size  int64 // bytes
	block int64 // bytes of a logical block
}

// openDisk opens a disk for writing. An exclusive one is in use by nobody: no
// partition of it is mounted. Otherwise it may be the one that the node was
// booted from.
func openDisk(path string, exclusive bool) (*opened, error) {
	flags := os.O_RDWR
	if exclusive {
		flags |= unix.O_EXCL
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, noDevice(err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("find the size of %s: %w", path, err)
	}
	block := 512
	if n, err := unix.IoctlGetInt(int(f.Fd()), unix.BLKSSZGET); err == nil {
		block = n // it fails for a file
	}
	return &opened{Disk: deviceFile{f}, path: path, size: size, block: int64(block)}, nil
}

// isPartition reports whether the kernel knows the device as a part of a disk.
func isPartition(path string) bool {
	_, err := os.Stat(filepath.Join("/sys/class/block", filepath.Base(path), "partition"))
	return err == nil
}

// noDevice names the errors of a device that is not there.
func noDevice(err error) error {
	for _, e := range []error{fs.ErrNotExist, unix.ENXIO, unix.ENODEV, unix.ENOMEDIUM} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w (%w)", hal.ErrNoDevice, err)
		}
	}
	return err
}

type deviceFile struct{ *os.File }

func (f deviceFile) Reread() error {
	_, err := unix.IoctlRetInt(int(f.Fd()), unix.BLKRRPART)
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EINVAL) {
		return nil // a file, or a device without partitions
	}
	return err
}

// part is a partition, seen through its disk: of a disk that the kernel has
// no devices for the partitions of, such as a file.
type part struct {
	*opened
	extent Extent
}

func (p part) ReadAt(b []byte, off int64) (int, error) {
	return section{ReaderAt: p.Disk, start: p.extent.Start, size: p.extent.Size}.ReadAt(b, off)
}

func (p part) WriteAt(b []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(b)) > p.extent.Size {
		return 0, fmt.Errorf("write %d bytes at %d of partition %d: it has %d", len(b), off, p.extent.Number, p.extent.Size)
	}
	return p.Disk.WriteAt(b, p.extent.Start+off)
}

// Close leaves the disk open: it is the caller's.
func (part) Close() error { return nil }

// update makes the bytes at off what want says, writes only the sectors that
// differ, in one piece, and waits for them.
func update(disk Disk, off int64, want []byte) error {
	const sector = 512
	now := make([]byte, len(want))
	if _, err := disk.ReadAt(now, off); err != nil {
		return err
	}
	first, last := -1, 0
	for i := 0; i < len(want); i += sector {
		end := min(i+sector, len(want))
		if string(now[i:end]) == string(want[i:end]) {
			continue
		}
		if first < 0 {
			first = i
		}
		last = end
	}
	if first < 0 {
		return nil
	}
	if _, err := disk.WriteAt(want[first:last], off+int64(first)); err != nil {
		return err
	}
	return disk.Sync()
}
