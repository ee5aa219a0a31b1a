package volume

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"machined/hal"
)

// What is overwritten of a volume that is larger, in bytes: everything that a
// file system is found by. The rest is given back to the disk, if that takes it.
const (
	eraseWhole = 1 << 30
	eraseHead  = 64 * mib
	eraseTail  = mib
	// A slow card has a piece in a few seconds, which is short enough for who
	// waits to tell it from a dead one. What is given back takes a card no time
	// to speak of, and no piece of it may be smaller than what it erases at once.
	erasePiece   = 4 * mib
	discardPiece = 4 << 30
)

// Erase implements hal.Provisioner.
func (p *Provisioner) Erase(path string, which hal.DataVolume, moved func()) error {
	label := which.String()
	if label == "" {
		return fmt.Errorf("erase volume %d of %s: %w", which, path, hal.ErrInvalid)
	}
	disk, table, err := p.readTable(path)
	if err != nil {
		return err
	}
	defer disk.Close()
	for _, c := range candidates(table, label) {
		if !ours(table, c) {
			continue
		}
		if err := p.erase(disk, path, Extent{Number: c.Number, Start: c.Start, Size: c.Size}, moved); err != nil {
			return fmt.Errorf("erase %s, partition %d of %s: %w", label, c.Number, path, err)
		}
	}
	return nil
}

func (p *Provisioner) erase(disk *opened, path string, e Extent, moved func()) error {
	device, err := p.disks.AddPartition(path, e.Number, e.Start, e.Size)
	if err != nil {
		return err
	}
	to, err := p.volumeDevice(disk, device, e, true)
	if err != nil {
		return err
	}
	defer to.Close()
	if e.Size <= eraseWhole {
		return clearPieces(to, 0, e.Size, moved)
	}
	// The head first: a volume whose end is gone must not look whole.
	if err := clearPieces(to, 0, eraseHead, moved); err != nil {
		return err
	}
	discard(device, e.Size, moved)
	return clearPieces(to, e.Size-eraseTail, e.Size, moved)
}

// clearPieces is clearRange, and says when each piece is on the disk: what the
// kernel has taken into memory is not.
func clearPieces(to Disk, from, end int64, moved func()) error {
	for at := from; at < end; at += erasePiece {
		if err := clearRange(to, at, min(at+erasePiece, end)); err != nil {
			return err
		}
		moved()
	}
	return nil
}

// blkDiscard is BLKDISCARD of linux/fs.h.
const blkDiscard = 0x1277

// discard tells the disk that nothing of a partition is needed (BLKDISCARD). Not
// every disk takes it.
func discard(device string, size int64, moved func()) {
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	for at := int64(0); at < size; at += discardPiece {
		extent := [2]uint64{uint64(at), uint64(min(discardPiece, size-at))}
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), blkDiscard, uintptr(unsafe.Pointer(&extent))); errno != 0 {
			return
		}
		moved()
	}
}
