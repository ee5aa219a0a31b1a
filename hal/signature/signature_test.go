package signature_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"machined/hal/signature"
)

// ram is a device in memory, which counts what is read of it.
type ram struct {
	b    []byte
	read int
	fail int64 // offset from which reads fail; 0 for nowhere
}

func newRAM(size int) *ram { return &ram{b: make([]byte, size)} }

func (r *ram) size() int64 { return int64(len(r.b)) }

var errBroken = errors.New("broken sector")

func (r *ram) ReadAt(b []byte, off int64) (int, error) {
	r.read += len(b)
	if r.fail > 0 && off+int64(len(b)) > r.fail {
		return 0, errBroken
	}
	if off >= r.size() {
		return 0, io.EOF
	}
	n := copy(b, r.b[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func TestBlank(t *testing.T) {
	for _, c := range []struct {
		name string
		size int
		make func(b []byte)
		want bool
	}{
		{"zero", 4 * mib, func([]byte) {}, true},
		{"erased flash", 4 * mib, func(b []byte) { fill(b, 0xff) }, true},
		{"erased flash with zeros written", 4 * mib, func(b []byte) { fill(b, 0xff); fill(b[:4096], 0) }, true},
		{"a sector half erased", 4 * mib, func(b []byte) { fill(b[1024:1280], 0xff) }, false},
		{"another byte", 4 * mib, func(b []byte) { fill(b, 0xa5) }, false},
		{"the first byte", 4 * mib, func(b []byte) { b[0] = 1 }, false},
		{"the last byte", 4 * mib, func(b []byte) { b[4*mib-1] = 1 }, false},
		{"the first MiB's last byte", 4 * mib, func(b []byte) { b[mib-1] = 1 }, false},
		{"the last MiB's first byte", 4 * mib, func(b []byte) { b[3*mib] = 1 }, false},
		{"in between", 4 * mib, func(b []byte) { b[2*mib] = 1 }, true},
		{"small, the middle", mib + 1000, func(b []byte) { b[mib/2] = 1 }, false},
		{"small, the end", 1000, func(b []byte) { b[999] = 1 }, false},
		{"small and zero", 1000, func([]byte) {}, true},
		{"no room", 0, func([]byte) {}, false},
	} {
		disk := newRAM(c.size)
		c.make(disk.b)
		if got, err := signature.Blank(disk, disk.size()); got != c.want || err != nil {
			t.Errorf("Blank of %s = %v, %v; want %v", c.name, got, err, c.want)
		}
		if disk.read > 2*mib {
			t.Errorf("Blank of %s read %d bytes; want 2 MiB at most", c.name, disk.read)
		}
	}
}

func fill(b []byte, c byte) {
	for i := range b {
		b[i] = c
	}
}

func TestReadErrors(t *testing.T) {
	for _, from := range []int64{1, 100 * kib, 3 * mib} {
		disk := newRAM(4 * mib)
		disk.fail = from
		if got, err := signature.Read(disk, disk.size()); !errors.Is(err, errBroken) || got.Blank {
			t.Errorf("Read with a broken sector at %d = %+v, %v; want %v", from, got, err, errBroken)
		}
	}
	disk := newRAM(4 * mib)
	if got, err := signature.Read(disk, 8*mib); err == nil {
		t.Errorf("Read of a disk that ends early = %+v; want an error", got)
	}
	disk.fail = 1
	if got, err := signature.ReadTable(disk, disk.size(), 512); !errors.Is(err, errBroken) {
		t.Errorf("ReadTable with a broken sector = %+v, %v; want %v", got, err, errBroken)
	}
}

// TestLabelsAreText checks that a label cannot steer the terminal it is shown
// on.
func TestLabelsAreText(t *testing.T) {
	disk := newRAM(mib)
	copy(disk.b, "XFSB")
	copy(disk.b[108:], "a\x1b[2Jb\xff\u202e")
	got, err := signature.Read(disk, disk.size())
	if want := "a\uFFFD[2Jb\uFFFD\uFFFD"; got.Label != want || err != nil {
		t.Errorf("Read = %+q, %v; want the label %+q", got.Label, err, want)
	}
}

// FuzzRead looks for bytes that make Read fall, or read without end.
func FuzzRead(f *testing.F) {
	boot := make([]byte, 512)
	copy(boot, "\xeb\x3c\x90mkfs.fat\x00\x02\x04\x01\x00\x02\x00\x02\x00\x10\xf8\x04\x00")
	copy(boot[510:], "\x55\xaa")
	exfat := make([]byte, 512)
	copy(exfat, "\xeb\x76\x90EXFAT   ")
	copy(exfat[88:], "\x08\x00\x00\x00\xff\x00\x00\x00\x05\x00\x00\x00")
	copy(exfat[108:], "\x09\x03")
	for _, seed := range [][]byte{boot, exfat, md(0), physicalVolume(0), []byte("LUKS\xba\xbe\x00\x02")} {
		f.Add(seed, int64(0), int64(16*mib))
	}
	f.Add(physicalVolume(1), int64(512), int64(16*mib))
	f.Add([]byte("\x53\xef"), int64(1024+56), int64(16*mib))
	f.Add([]byte("SWAPSPACE2"), int64(4086), int64(1<<40))
	f.Fuzz(func(t *testing.T, data []byte, off, size int64) {
		disk := &sparse{data: data, off: off}
		_, _ = signature.Read(disk, size)
		if disk.read > 4*mib {
			t.Errorf("%d bytes were read; want 4 MiB at most", disk.read)
		}
	})
}

// FuzzReadTable does the same for tables.
func FuzzReadTable(f *testing.F) {
	disk := newRAM(16 * mib)
	writeGPT(f, disk)
	f.Add(bytes.Clone(disk.b[:64*kib]), int64(0), int64(16*mib), int64(512))
	f.Add(bytes.Clone(disk.b[len(disk.b)-64*kib:]), int64(16*mib-64*kib), int64(16*mib), int64(512))
	f.Add([]byte("\x00\x00\x00\x00\x05\x00\x00\x00\x01\x00\x00\x00\x00\x10\x00\x00"), int64(446), int64(mib), int64(0))
	f.Fuzz(func(t *testing.T, data []byte, off, size, block int64) {
		disk := &sparse{data: data, off: off, boot: true}
		table, err := signature.ReadTable(disk, size, block)
		if disk.read > 4*mib {
			t.Errorf("%d bytes were read; want 4 MiB at most", disk.read)
		}
		if err != nil {
			return
		}
		start, length := table.Largest()
		if length < 0 || start < 0 || length > 0 && (start+length > size || start%mib != 0 || length%mib != 0) {
			t.Errorf("Largest = %d, %d on a disk of %d; want whole MiB inside of it", start, length, size)
		}
		if slices.ContainsFunc(table.Partitions, func(p signature.Partition) bool { return p.Start < 0 || p.Size < 0 }) {
			t.Errorf("ReadTable = %+v; want no negative places", table.Partitions)
		}
	})
}

// sparse is a device of any size that is zero but for data at off.
type sparse struct {
	data []byte
	off  int64
	boot bool // the first sector has a boot signature
	read int
}

func (s *sparse) ReadAt(b []byte, off int64) (int, error) {
	s.read += len(b)
	clear(b)
	if s.boot && off <= 510 && off+int64(len(b)) >= 512 {
		copy(b[510-off:], "\x55\xaa")
	}
	if from := s.off - off; from >= 0 && from < int64(len(b)) {
		copy(b[from:], s.data)
	} else if from < 0 && -from > 0 && -from < int64(len(s.data)) {
		copy(b, s.data[-from:])
	}
	return len(b), nil
}
