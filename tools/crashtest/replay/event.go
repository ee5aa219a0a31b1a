// Package replay makes of a record of block writes what a power cut may have
// left on the disk.
//
// A disk has all that was written before the last flush. Of what was written
// since then it may have any part, in any order, and of each write any of its
// sectors: a sector alone is written whole or not at all.
package replay

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"machined/tools/crashtest/blocklog"
	"machined/tools/crashtest/scenario"
)

const sectorBytes = blocklog.SectorBytes

// Event is what the guest did to the disk: one of the three.
type Event struct {
	write []sector
	flush bool
	note  *scenario.Moment
}

// sector is a sector of the boot partition that was written.
type sector struct {
	number int64
	data   []byte
	sum    sum
}

// sum stands for the content of a sector and its place.
type sum [16]byte

func sumOf(number int64, data []byte) sum {
	h := sha256.New()
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(number))
	h.Write(n[:])
	h.Write(data)
	return sum(h.Sum(nil)[:16])
}

// xor combines sums. The order does not matter, and the same twice is nothing.
func (s sum) xor(other sum) sum {
	for i := range s {
		s[i] ^= other[i]
	}
	return s
}

// Events reads a record of a disk whose boot partition has size bytes.
func Events(record []blocklog.Entry, size int64) ([]Event, error) {
	var events []Event
	for i, e := range record {
		if e.Flush {
			events = append(events, Event{flush: true})
		}
		if len(e.Data) == 0 {
			continue
		}
		at := e.Sector*sectorBytes - scenario.BootOffset
		switch {
		case at >= 0 && at+int64(len(e.Data)) <= size:
			events = append(events, Event{write: sectors(at/sectorBytes, e.Data)})
		case at == size && len(e.Data) == scenario.NoteBytes:
			m, err := scenario.DecodeMoment(e.Data)
			if err != nil {
				return nil, err
			}
			events = append(events, Event{note: &m})
			continue // what is noted may still not be on the disk
		default:
			return nil, fmt.Errorf("entry %d writes %d bytes at byte %d of the boot partition, which has %d", i, len(e.Data), at, size)
		}
		if e.Durable {
			// All that came before is said to be durable too: QEMU has no other
			// way to write one sector through.
			events = append(events, Event{flush: true})
		}
	}
	return events, nil
}

func sectors(first int64, data []byte) []sector {
	list := make([]sector, 0, len(data)/sectorBytes)
	for ; len(data) >= sectorBytes; first, data = first+1, data[sectorBytes:] {
		list = append(list, sector{first, data[:sectorBytes], sumOf(first, data[:sectorBytes])})
	}
	return list
}
