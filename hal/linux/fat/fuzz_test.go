package fat

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"
)

// FuzzRepair overwrites parts of a sound volume. A repair neither panics, nor
// goes on for ever, nor writes where there are files or behind the volume, and
// what it repaired is clean.
func FuzzRepair(f *testing.F) {
	sound := makeVolume(f, 34*mib, tree{"A/B/a long name of a file": []byte("x"), "A/kernel": make([]byte, 5000), "config.txt": []byte("y")})
	m := open(f, sound)
	end, data := sound.size, m.v.dataAt
	sound.size += 4 * mib
	m.markDirty()
	at := func(n int64) uint32 { return uint32(n) }
	f.Add(uint32(11), []byte{0, 4}, uint32(0), []byte{}, uint32(0), []byte{})
	f.Add(at(m.v.fatAt)+8, []byte{2, 0, 0, 0}, at(data), []byte("AAAA"), at(m.v.infoAt), []byte("R"))
	f.Add(at(data)+32, bytes.Repeat([]byte{0x41}, 64), uint32(44), []byte{3}, at(m.v.fatAt)+4, []byte{0})
	f.Add(at(data)+512, bytes.Repeat([]byte{0x0f}, 512), uint32(13), []byte{8}, at(m.v.copyAt(1)), make([]byte, 512))
	for _, d := range []uint32{32, 36, 48, 14, 16} { // sizes and places
		f.Add(d, []byte{1}, at(data)+64, []byte{0xe5}, at(m.v.fatAt)+40, binary.LittleEndian.AppendUint32(nil, 9))
	}
	f.Fuzz(func(t *testing.T, at1 uint32, with1 []byte, at2 uint32, with2 []byte, at3 uint32, with3 []byte) {
		d := sound.clone()
		for _, p := range []op{{int64(at1), with1}, {int64(at2), with2}, {int64(at3), with3}} {
			// In the boot sector, FATs and directories, not in the vast free space.
			if at := p.off % (data + 8192); at+int64(len(p.data)) < d.size {
				d.apply(at, p.data)
			}
		}
		checkFuzzed(t, d, end)
	})
}

// FuzzVolume takes the bytes as they are, behind a boot sector.
func FuzzVolume(f *testing.F) {
	sound := open(f, makeVolume(f, 34*mib, tree{"A/x": []byte("y")}))
	f.Add(sound.bytes(0, 512), sound.bytes(sound.v.fatAt, 512), sound.bytes(sound.v.clusterAt(2), 1024))
	f.Add(sound.bytes(0, 512), sound.bytes(sound.v.fatAt, 512), bytes.Repeat([]byte("A          \x10........\x00\x00....\x02\x00...."), 16))
	f.Fuzz(func(t *testing.T, boot, table, data []byte) {
		d := newRAMDisk(34 * mib)
		d.apply(0, boot[:min(len(boot), 4096)])
		if len(boot) > bootState {
			d.apply(bootState, []byte{1})
		}
		if v, err := readVolume(d, d.size); err == nil {
			d.apply(v.infoAt, sound.bytes(512, 512))
			d.apply(v.fatAt, table[:min(len(table), mib)])
			d.apply(v.clusterAt(2), data[:min(int64(len(data)), d.size-v.clusterAt(2))])
		}
		checkFuzzed(t, d, d.size)
	})
}

func checkFuzzed(t *testing.T, d *ramDisk, end int64) {
	if v, err := readVolume(d, d.size); err == nil {
		image{d, v}.markDirty()
	}
	start := time.Now()
	_, err := Repair(d, d.size)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("Repair took %v", took)
	}
	for _, o := range d.record {
		if o.off+int64(len(o.data)) > max(end, volumeEnd(d)) {
			t.Fatalf("Repair wrote %d bytes at %d, behind the volume", len(o.data), o.off)
		}
	}
	if err != nil {
		if len(d.record) > 0 {
			t.Fatalf("Repair = %v, and wrote %d times", err, len(d.record))
		}
		for _, known := range []error{ErrNotFAT32, ErrDamaged, ErrTooLarge} {
			if errors.Is(err, known) {
				return
			}
		}
		t.Fatalf("Repair = %v; want an error that says what to do", err)
	}
	if got, err := RepairAnyway(d, d.size); err != nil || got.String() != "nothing to repair" {
		t.Fatalf("a second repair did %v, %v; want nothing", got, err)
	}
}

// volumeEnd is where the volume ends as its boot sector has it.
func volumeEnd(d *ramDisk) int64 {
	if v, err := readVolume(d, d.size); err == nil {
		return v.bytes
	}
	return 0
}
