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
)

// Erase implements hal.Provisioner.
func (p *Provisioner) Erase(path string, which hal.DataVolume) error {
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
		if err := p.erase(disk, path, Extent{Number: c.Number, Start: c.Start, Size: c.Size}); err != nil {
			return fmt.Errorf("erase %s, partition %d of %s: %w", label, c.Number, path, err)
		}
	}
	return nil
}

func (p *Provisioner) erase(disk *opened, path string, e Extent) error {
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
		return clearRange(to, 0, e.Size)
	}
	// The head first: a volume whose end is gone must not look whole.
	if err := clearRange(to, 0, eraseHead); err != nil {
		return err
	}
	discard(device, e.Size)
	return clearRange(to, e.Size-eraseTail, e.Size)
}

// blkDiscard is BLKDISCARD of linux/fs.h.
const blkDiscard = 0x1277

// discard tells the disk that nothing of a partition is needed (BLKDISCARD). Not
// every disk takes it.
func discard(device string, size int64) {
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	extent := [2]uint64{0, uint64(size)}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, f.Fd(), blkDiscard, uintptr(unsafe.Pointer(&extent)))
}
