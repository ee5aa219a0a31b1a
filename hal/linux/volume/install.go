package volume

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf16"

	"golang.org/x/sys/unix"

	"machined/hal"
	"machined/hal/signature"
)

const (
	// bootBegin is where boot partitions begin, in bytes.
	bootBegin = mib
	// bootName is the partition's in a GPT.
	bootName = "EFI"
	// mbrBoot is the type of a FAT32 partition that is found by its block numbers.
	mbrBoot = 0x0c
	// piece is how much of it is in memory, in bytes.
	piece = 256 << 10
)

// Install implements hal.Provisioner.
func (p *Provisioner) Install(i hal.Install) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	doing := "install on " + i.Disk
	switch {
	case isPartition(i.Disk):
		return fmt.Errorf("%s: it is a partition, and no disk: %w", doing, hal.ErrInvalid)
	case i.Table != hal.GPT && i.Table != hal.MBR || i.Size <= 0 || i.Size%mib != 0 || i.Boot == nil || i.Complete == nil:
		return fmt.Errorf("%s: a boot partition of %d bytes and table %d; want whole MiB, and GPT or MBR: %w", doing, i.Size, i.Table, hal.ErrInvalid)
	}
	// For the partition and the two ends.
	if err := p.begin(i.Disk, i.Wipe, i.Size+2*endSize, i.Table); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	disk, err := p.open(i.Disk, false)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer disk.Close()
	e := Extent{Number: 1, Start: bootBegin, Size: i.Size}
	if err := fillBoot(part{opened: disk, extent: e}, i.Boot, i.Size); err != nil {
		return fmt.Errorf("%s: write the boot partition: %w", doing, err)
	}
	if err := p.complete(i, e); err != nil {
		return fmt.Errorf("%s: complete the boot partition: %w", doing, err)
	}
	if i.Table == hal.MBR {
		err = p.writeMBR(disk, e)
	} else {
		err = writeGPT(disk, p.bootEntry(disk, e))
	}
	if err != nil {
		err = errors.Join(err, p.disks.RemovePartition(i.Disk, e.Number))
		return fmt.Errorf("%s: write the partition table: %w", doing, err)
	}
	reread(disk)
	return nil
}

// reread has the kernel read the table, and tell those who watch the disk of it. One
// of them may just be looking at the partition, which is then in use for a moment.
// The kernel has the partition all the same.
func reread(disk *opened) {
	for end := time.Now().Add(rereadWait); errors.Is(disk.Reread(), unix.EBUSY) && time.Now().Before(end); {
		time.Sleep(rereadWait / 20)
	}
}

const rereadWait = 2 * time.Second

// complete has the caller finish a partition that no table names yet.
func (p *Provisioner) complete(i hal.Install, e Extent) error {
	device, err := p.disks.AddPartition(i.Disk, e.Number, e.Start, e.Size)
	if err != nil {
		return err
	}
	if err = i.Complete(device); err != nil {
		// Else it would be taken for one that a node boots from.
		err = errors.Join(err, p.disks.RemovePartition(i.Disk, e.Number))
	}
	return err
}

// begin makes a disk one that is blank but for an empty GPT: of an MBR, nothing is
// there before its one sector is written.
func (p *Provisioner) begin(path string, wipe bool, size int64, table hal.Table) error {
	need := []hal.NewVolume{{Label: bootName, Size: size}}
	if table == hal.GPT {
		return p.fresh(path, wipe, need)
	}
	return p.blank(path, wipe, need, func(disk *opened) error {
		// Also the remains of a GPT that was begun.
		return errors.Join(clearRange(disk, 0, endSize), clearRange(disk, disk.size-endSize, disk.size))
	})
}

// fillBoot writes a partition, and compares it with what the disk has.
func fillBoot(to part, r hal.Reader, size int64) error {
	want, b := sha256.New(), make([]byte, piece)
	for at := int64(0); at < size; {
		n, err := io.ReadFull(r, b[:min(piece, size-at)])
		if err != nil {
			return fmt.Errorf("read what is to be written, after %d of %d bytes: %w", at+int64(n), size, err)
		}
		want.Write(b[:n])
		if _, err := to.WriteAt(b[:n], at); err != nil {
			return err
		}
		at += int64(n)
	}
	if err := to.Sync(); err != nil {
		return err
	}
	if f, ok := to.Disk.(interface{ Forget() error }); ok {
		if err := f.Forget(); err != nil {
			return fmt.Errorf("have the kernel forget what it has in memory: %w", err)
		}
	}
	got := sha256.New()
	for at := int64(0); at < size; {
		n := min(piece, size-at)
		if _, err := to.ReadAt(b[:n], at); err != nil {
			return err
		}
		got.Write(b[:n])
		at += n
	}
	if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		return hal.ErrReadBack
	}
	return nil
}

// blkFlushBuffers is BLKFLSBUF of linux/fs.h.
const blkFlushBuffers = 0x1261

// Forget drops what is in memory of the disk, so that the next read is from it.
func (f deviceFile) Forget() error {
	err := unix.IoctlSetInt(int(f.Fd()), blkFlushBuffers, 0)
	if err != nil && !errors.Is(err, unix.ENOTTY) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EACCES) {
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// bootEntry is a new table with the boot partition.
func (p *Provisioner) bootEntry(disk *opened, e Extent) signature.GPT {
	g := p.emptyGPT(disk)
	b := g.Entries[:signature.EntrySize]
	copy(b, "\x28\x73\x2a\xc1\x1f\xf8\xd2\x11\xba\x4b\x00\xa0\xc9\x3e\xc9\x3b") // EFI system partition, UEFI specification, table 5.7
	id := p.uuid()
	copy(b[16:], id[:])
	binary.LittleEndian.PutUint64(b[32:], uint64(e.Start/disk.block))
	binary.LittleEndian.PutUint64(b[40:], uint64((e.Start+e.Size)/disk.block-1))
	for i, u := range utf16.Encode([]rune(bootName)) {
		binary.LittleEndian.PutUint16(b[56+2*i:], u)
	}
	return g
}

// writeMBR writes a table with the boot partition in one sector.
func (p *Provisioner) writeMBR(disk *opened, e Extent) error {
	sector := make([]byte, 512)
	p.random(sector[440:444]) // the disk's signature
	entry := sector[446:462]
	// The cylinders are beyond what such an entry can say.
	copy(entry, "\x80\xfe\xff\xff\x00\xfe\xff\xff")
	entry[4] = mbrBoot
	binary.LittleEndian.PutUint32(entry[8:], uint32(e.Start/disk.block))
	binary.LittleEndian.PutUint32(entry[12:], uint32(e.Size/disk.block))
	copy(sector[510:], "\x55\xaa")
	return update(disk, 0, sector)
}
