// Package blocklog reads the record of a block device that QEMU's filter
// blklogwrites keeps: all writes and flushes in the order in which they were
// completed.
//
// The format is that of Linux's device-mapper target log-writes
// (Documentation/admin-guide/device-mapper/log-writes.rst and
// drivers/md/dm-log-writes.c). Its sectors are of 512 bytes here.
package blocklog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrFormat says that a file is no such record, or a damaged one.
var ErrFormat = errors.New("not a record of block writes")

// SectorBytes is the unit of Entry.Sector.
const SectorBytes = 512

const (
	magic   = 0x6a736677736872
	version = 1

	flagFlush   = 1 << 0
	flagFUA     = 1 << 1
	flagDiscard = 1 << 2
	flagMark    = 1 << 3
)

// Entry is a request that the device has completed.
type Entry struct {
	// Flush says that all that was completed before is on the disk.
	Flush bool
	// Durable says that Data is on the disk when the request is completed (FUA).
	Durable bool
	Sector  int64
	Data    []byte // whole sectors; none for a flush
}

// Read reads a whole record.
func Read(r io.Reader) ([]Entry, error) {
	sector := make([]byte, SectorBytes)
	if _, err := io.ReadFull(r, sector); err != nil {
		return nil, fmt.Errorf("read the record's first sector: %w", err)
	}
	le := binary.LittleEndian
	if le.Uint64(sector) != magic || le.Uint64(sector[8:]) != version || le.Uint32(sector[24:]) != SectorBytes {
		return nil, fmt.Errorf("%w: it begins with %x", ErrFormat, sector[:28])
	}
	entries := make([]Entry, 0, min(le.Uint64(sector[16:]), 1<<20))
	for n := range le.Uint64(sector[16:]) {
		e, err := readEntry(r, sector)
		if err != nil {
			return nil, fmt.Errorf("read entry %d of %d: %w", n, le.Uint64(sector[16:]), err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// maxSectors bounds what is believed of one entry: 1 GiB.
const maxSectors = 1 << 21

func readEntry(r io.Reader, sector []byte) (Entry, error) {
	if _, err := io.ReadFull(r, sector); err != nil {
		return Entry{}, err
	}
	le := binary.LittleEndian
	count, flags := le.Uint64(sector[8:]), le.Uint64(sector[16:])
	e := Entry{Sector: int64(le.Uint64(sector)), Flush: flags&flagFlush != 0, Durable: flags&flagFUA != 0}
	switch {
	case flags&^(flagFlush|flagFUA|flagDiscard|flagMark) != 0, e.Sector < 0, count > maxSectors:
		return Entry{}, fmt.Errorf("%w: sector %d, %d sectors, flags %#x", ErrFormat, e.Sector, count, flags)
	case flags&flagMark != 0:
		return Entry{}, fmt.Errorf("%w: it has a mark, which no guest can write", ErrFormat)
	}
	e.Data = make([]byte, count*SectorBytes)
	if flags&flagDiscard != 0 {
		return e, nil // reads as zeros then; there is no data in the record
	}
	_, err := io.ReadFull(r, e.Data)
	return e, err
}
