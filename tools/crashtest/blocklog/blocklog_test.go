package blocklog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

// sectorOf packs numbers into a sector, little-endian.
func sectorOf(numbers ...uint64) []byte {
	s := make([]byte, SectorBytes)
	for i, n := range numbers {
		binary.LittleEndian.PutUint64(s[8*i:], n)
	}
	return s
}

func record(count uint64, parts ...[]byte) []byte {
	return append(sectorOf(magic, version, count, SectorBytes), bytes.Join(parts, nil)...)
}

func TestRead(t *testing.T) {
	data := bytes.Repeat([]byte{7}, 2*SectorBytes)
	got, err := Read(bytes.NewReader(record(4,
		sectorOf(5, 2, 0, uint64(len(data))), data,
		sectorOf(0, 0, flagFlush),
		sectorOf(9, 1, flagDiscard),
		sectorOf(3, 1, flagFlush|flagFUA), data[:SectorBytes])))
	if err != nil || len(got) != 4 {
		t.Fatalf("Read = %d entries, %v; want 4", len(got), err)
	}
	if e := got[0]; e.Sector != 5 || e.Flush || e.Durable || !bytes.Equal(e.Data, data) {
		t.Errorf("the write is %+v", e)
	}
	if e := got[1]; !e.Flush || e.Durable || len(e.Data) != 0 {
		t.Errorf("the flush is %+v", e)
	}
	if e := got[2]; e.Sector != 9 || !bytes.Equal(e.Data, make([]byte, SectorBytes)) {
		t.Errorf("the discard is %+v", e)
	}
	if e := got[3]; e.Sector != 3 || !e.Flush || !e.Durable || len(e.Data) != SectorBytes {
		t.Errorf("the write through is %+v", e)
	}
}

func TestReadDamaged(t *testing.T) {
	for _, c := range []struct {
		name   string
		record []byte
		want   error
	}{
		{"empty", nil, io.EOF},
		{"no magic", sectorOf(1, version, 0, SectorBytes), ErrFormat},
		{"another version", sectorOf(magic, 2, 0, SectorBytes), ErrFormat},
		{"larger sectors", sectorOf(magic, version, 0, 4096), ErrFormat},
		{"an entry is missing", record(1), io.EOF},
		{"data is missing", record(1, sectorOf(1, 2)), io.EOF},
		{"an unknown flag", record(1, sectorOf(1, 1, 1<<9)), ErrFormat},
		{"a mark", record(1, sectorOf(0, 0, flagMark)), ErrFormat},
		{"without end", record(1, sectorOf(0, 1<<40)), ErrFormat},
		{"before the beginning", record(1, sectorOf(1<<63, 1)), ErrFormat},
	} {
		if got, err := Read(bytes.NewReader(c.record)); !errors.Is(err, c.want) {
			t.Errorf("%s: Read = %v, %v; want %v", c.name, got, err, c.want)
		}
	}
}
