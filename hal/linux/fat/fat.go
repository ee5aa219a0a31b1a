// Package fat repairs what a power cut leaves of a FAT32 volume.
//
// Linux marks a volume dirty as long as it is mounted writable, and never
// clears a mark that it found when it mounted (fs/fat/inode.c). After a cut in
// the middle of an upgrade the boot partition would stay dirty for ever, and
// lose the clusters that no directory entry reaches. Linux writes the sectors
// of the FATs, of directories and of files back in any order; fsync(2) of a
// file or a directory waits for all that concerns it (fs/fat/file.c). So
// whatever was synced is whole in both FATs, and what this package changes are
// the remains of what was not. Anything that a cut cannot leave, such as
// chains that share clusters, is refused and not touched.
//
// The structures follow the Microsoft FAT32 File System Specification
// (fatgen103). Sizes and offsets are in bytes.
package fat

import (
	"fmt"
	"io"

	"machined/hal"
)

const (
	// ErrNotFAT32 says that a volume has no FAT32 boot sector, or a damaged one.
	ErrNotFAT32 hal.Error = "not a FAT32 volume, or its boot sector is damaged: if it was one, take the card to a computer and run fsck.fat on it"
	// ErrDamaged says that a volume has damage that no power cut explains.
	// Nothing was written.
	ErrDamaged hal.Error = "damaged by more than a power cut and left as it is: take the card to a computer, copy what is needed, and run fsck.fat on it"
	// ErrTooLarge says that a volume is beyond what is repaired in little memory.
	ErrTooLarge hal.Error = "too large to be repaired here: take the card to a computer and run fsck.fat on it"
)

// Disk is a volume that can be written. Sync returns when all that was written
// has reached it.
type Disk interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
}

// Dirty reports whether the volume in the first size bytes of disk is marked as
// not cleanly unmounted: by Linux in the boot sector, or by Windows in the
// second entry of the FAT. It reads two sectors at most. ErrNotFAT32.
func Dirty(disk io.ReaderAt, size int64) (bool, error) {
	v, err := readVolume(disk, size)
	if err != nil {
		return false, err
	}
	return v.dirty()
}

// Repair makes a dirty volume in the first size bytes of disk clean, and writes
// nothing to one that is clean. A power cut at any time leaves a volume that
// another Repair makes clean. ErrNotFAT32, ErrDamaged and ErrTooLarge come
// before the first write.
//
// It takes four bytes and a bit of memory a cluster. The disk must not be
// mounted, not even read-only: the kernel would not notice.
func Repair(disk Disk, size int64) (Report, error) { return repair(disk, size, false) }

// RepairAnyway is Repair, for a volume that is not marked dirty too.
func RepairAnyway(disk Disk, size int64) (Report, error) { return repair(disk, size, true) }

func repair(disk Disk, size int64, anyway bool) (Report, error) {
	v, err := readVolume(disk, size)
	if err != nil {
		return Report{}, err
	}
	dirty, err := v.dirty()
	if err != nil || !dirty && !anyway {
		return Report{}, err
	}
	if v.bytes > maxVolume {
		return Report{}, fmt.Errorf("repair a FAT32 volume of %d bytes, more than %d: %w", v.bytes, maxVolume, ErrTooLarge)
	}
	c, err := check(v)
	if err != nil {
		return Report{}, fmt.Errorf("check the FAT32 volume before repairing it: %w", err)
	}
	w := writer{volume: v, disk: disk, check: c, dirty: dirty}
	if err := w.write(); err != nil {
		return c.report, fmt.Errorf("repair the FAT32 volume (%s): %w; it stays dirty and is repaired again at the next start", c.report, err)
	}
	return c.report, nil
}
