package volume

import (
	"fmt"
	"hash/crc32"
	"io"

	"machined/hal"
	"machined/hal/signature"
)

// endSize is what of either end of a disk a wipe clears, in bytes: all places
// where tables and file systems have their signatures.
const endSize = 1 * mib

// fresh gives a disk an empty GPT. The disk is blank, or its owner wants it
// wiped.
func (p *Provisioner) fresh(path string, wipe bool, volumes []hal.NewVolume) error {
	return p.blank(path, wipe, volumes, func(disk *opened) error {
		if err := writeGPT(disk, p.emptyGPT(disk)); err != nil {
			return fmt.Errorf("give %s a GPT: %w", path, err)
		}
		return nil
	})
}

// blank makes sure that a disk has nothing, and then runs begin on it.
func (p *Provisioner) blank(path string, wipe bool, volumes []hal.NewVolume, begin func(*opened) error) error {
	disk, err := p.open(path, true)
	if err != nil {
		return fmt.Errorf("open %s for itself alone (nothing of it may be mounted): %w", path, err)
	}
	defer disk.Close()
	if need := needed(volumes); disk.size < need {
		return fmt.Errorf("%s has %d bytes, and %d are needed: %w", path, disk.size, need, hal.ErrNoSpace)
	}
	if wipe {
		for _, at := range []int64{0, disk.size - endSize} {
			if err := clearRange(disk, at, at+endSize); err != nil {
				return fmt.Errorf("wipe %s: %w", path, err)
			}
		}
	}
	// Nobody wrote to it since it was looked at.
	begun, err := Begun(disk, disk.size, disk.block)
	if err != nil {
		return fmt.Errorf("look at %s again: %w", path, err)
	}
	if !begun {
		return fmt.Errorf("%s is not blank any more: %w", path, hal.ErrInvalid)
	}
	if err := begin(disk); err != nil {
		return err
	}
	if err := disk.Reread(); err != nil {
		return fmt.Errorf("have the kernel forget the old partitions of %s: %w", path, err)
	}
	return nil
}

// needed returns the least size of a disk for these volumes and a GPT, in
// bytes.
func needed(volumes []hal.NewVolume) int64 {
	sum := int64(2 * endSize)
	for _, v := range volumes {
		sum += max((v.Size+mib-1)/mib*mib, hal.MinVolume)
	}
	return sum
}

func (p *Provisioner) emptyGPT(disk *opened) signature.GPT {
	l := layoutOf(disk, usualEntries*signature.EntrySize)
	return signature.GPT{
		At: 1, Other: l.end, First: 2 + l.entriesBlocks, Last: l.end - l.entriesBlocks - 1, GUID: p.uuid(), EntriesAt: 2,
		Entries: make([]byte, usualEntries*signature.EntrySize),
	}
}

// Begun reports whether a disk of size bytes, in blocks of block bytes, is blank
// but for what Provision writes before the disk has a table: it was cut there,
// and may go on without being asked.
func Begun(disk io.ReaderAt, size, block int64) (bool, error) {
	const step = 64 << 10
	last := (size/block - 1) * block
	b := make([]byte, step)
	for _, r := range [][2]int64{{0, min(endSize, size)}, {max(min(endSize, size), size-endSize), size}} {
		for at := r[0]; at < r[1]; at += int64(len(b)) {
			b = b[:min(step, r[1]-at)]
			if _, err := disk.ReadAt(b, at); err != nil {
				return false, err
			}
			for _, sector := range []int64{0, block, last} {
				if sector >= at && sector+block <= at+int64(len(b)) && begunBlock(b[sector-at:][:block], size/block, sector/block) {
					clear(b[sector-at:][:block])
				}
			}
			if !signature.Empty(b) {
				return false, nil
			}
		}
	}
	return true, nil
}

// begunBlock reports whether the block of number at is a piece of an empty GPT.
func begunBlock(b []byte, blocks, at int64) bool {
	if at == 0 {
		empty := make([]byte, 446)
		return string(b[:446]) == string(empty) && b[450] == 0xee && string(b[462:510]) == string(empty[:48]) && b[510] == 0x55 && b[511] == 0xaa
	}
	g, count, sum, ok := signature.ParseHeader(b, blocks)
	return ok && g.At == at && sum == crc32.ChecksumIEEE(make([]byte, count*signature.EntrySize))
}

// clearRange writes zeros from from to to where there are others, and waits.
func clearRange(disk Disk, from, to int64) error {
	const step = 64 << 10
	b, zeros := make([]byte, step), make([]byte, step)
	for at := from; at < to; at += step {
		n := min(step, to-at)
		if _, err := disk.ReadAt(b[:n], at); err != nil {
			return err
		}
		if string(b[:n]) == string(zeros[:n]) {
			continue
		}
		if _, err := disk.WriteAt(zeros[:n], at); err != nil {
			return err
		}
	}
	return disk.Sync()
}
