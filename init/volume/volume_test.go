package volume

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/diskfs/go-diskfs/partition/mbr"
)

func TestCreateAndFind(t *testing.T) {
	for _, c := range []struct {
		name  string
		size  int64
		write func(*testing.T, *ramDisk)
		want  Extent
	}{
		{"GPT", 64 * mib, func(t *testing.T, d *ramDisk) { writeGPT(t, d, d.size) }, Extent{Number: 2, Start: 5 * mib, Size: 58 * mib}},
		{"GPT, least", 38 * mib, func(t *testing.T, d *ramDisk) { writeGPT(t, d, d.size) }, Extent{Number: 2, Start: 5 * mib, Size: 32 * mib}},
		{"GPT, large disk", 1 << 40, func(t *testing.T, d *ramDisk) { writeGPT(t, d, d.size) }, Extent{Number: 2, Start: 5 * mib, Size: Size}},
		{"GPT made for a smaller disk", 64 * mib, func(t *testing.T, d *ramDisk) { writeGPT(t, d, 8*mib) }, Extent{Number: 2, Start: 5 * mib, Size: 58 * mib}},
		{"GPT with a third partition", 64 * mib, func(t *testing.T, d *ramDisk) {
			writeGPT(t, d, d.size, &gpt.Partition{Index: 3, Name: "DATA", Type: gpt.LinuxFilesystem, Start: 6 * 2048, End: 8*2048 - 2, Size: 2*mib - 512})
		}, Extent{Number: 4, Start: 8 * mib, Size: 55 * mib}},
		{"MBR", 64 * mib, func(t *testing.T, d *ramDisk) { writeMBR(t, d) }, Extent{Number: 2, Start: 5 * mib, Size: 59 * mib}},
		{"MBR, least", 37 * mib, func(t *testing.T, d *ramDisk) { writeMBR(t, d) }, Extent{Number: 2, Start: 5 * mib, Size: 32 * mib}},
		{"MBR, disk beyond its reach", 4 << 40, func(t *testing.T, d *ramDisk) { writeMBR(t, d) }, Extent{Number: 2, Start: 5 * mib, Size: Size}},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := newRAMDisk(c.size)
			c.write(t, disk)
			if e, err := Find(disk, c.size); !errors.Is(err, ErrNoState) {
				t.Errorf("Find before Create = %+v, %v; want %v", e, err, ErrNoState)
			}
			got, err := Create(disk, c.size, packed(stateContents()))
			if got != c.want || err != nil {
				t.Fatalf("Create = %+v, %v; want %+v", got, err, c.want)
			}
			checkState(t, disk, got)
			disk.record = nil
			// A second boot finds it, and must not touch what is in it by now.
			none := func() (io.ReadCloser, error) { return nil, errors.New("the template was opened") }
			for name, again := range map[string]func() (Extent, error){
				"Find":   func() (Extent, error) { return Find(disk, c.size) },
				"Create": func() (Extent, error) { return Create(disk, c.size, none) },
			} {
				if got, err := again(); got != c.want || err != nil || len(disk.record) != 0 {
					t.Errorf("%s afterwards = %+v, %v with %d writes; want %+v with none", name, got, err, len(disk.record), c.want)
				}
			}
		})
	}
}

// checkState checks that STATE is whole and the boot partition untouched.
func checkState(t *testing.T, disk Disk, e Extent) {
	t.Helper()
	if e.Start < bootStart+bootSize || e.Start%alignment != 0 || e.Size < MinSize {
		t.Fatalf("STATE is at %+v; want it behind the boot partition, at a whole MiB", e)
	}
	want := stateContents()
	if got := readAt(t, disk, e.Start, int64(len(want))); !bytes.Equal(got, want) {
		t.Fatalf("STATE at %+v does not hold the template", e)
	}
	checkBoot(t, disk)
}

// TestRefuses covers the disks that are left as they are.
func TestRefuses(t *testing.T) {
	linux := func(number int, start uint32) *mbr.Partition {
		return &mbr.Partition{Index: number, Type: mbr.Linux, Start: start, Size: 2048}
	}
	for _, c := range []struct {
		name   string
		size   int64
		write  func(*testing.T, *ramDisk)
		noRoom bool
	}{
		{"GPT, too small", 37 * mib, func(t *testing.T, d *ramDisk) { writeGPT(t, d, d.size) }, true},
		{"GPT made for a larger disk", 16 * mib, func(t *testing.T, d *ramDisk) {
			larger := newRAMDisk(64 * mib)
			writeGPT(t, larger, larger.size)
			larger.size = d.size
			*d = *larger
		}, true},
		{"MBR, too small", 36 * mib, func(t *testing.T, d *ramDisk) { writeMBR(t, d) }, true},
		{"MBR, foreign partition 2", 64 * mib, func(t *testing.T, d *ramDisk) {
			writeMBR(t, d, &mbr.Partition{Index: 2, Type: mbr.NTFS, Start: 5 * 2048, Size: 2048})
		}, true},
		{"MBR, foreign partition 3", 64 * mib, func(t *testing.T, d *ramDisk) {
			writeMBR(t, d, &mbr.Partition{}, linux(3, 5*2048))
		}, true},
		{"MBR without partitions", 64 * mib, func(t *testing.T, d *ramDisk) {
			if err := (&mbr.Table{}).Write(d, d.size); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"no table", 64 * mib, func(*testing.T, *ramDisk) {}, false},
		// What is left then is the protective MBR. On a disk that is larger
		// than it says, or whose sectors have 4,096 bytes, there seemed to be
		// room behind its entry, in the midst of the GPT's partitions.
		{"GPT with both copies broken", 64 * mib, func(t *testing.T, d *ramDisk) {
			writeGPT(t, d, 16*mib)
			for _, lba := range []int64{1, 16*mib/sectorSize - 1} {
				d.apply(lba*sectorSize, make([]byte, sectorSize))
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := newRAMDisk(c.size)
			c.write(t, disk)
			disk.record = nil
			e, err := ensure(disk, c.size, packed(stateContents()))
			if err == nil || errors.Is(err, ErrNoRoom) != c.noRoom {
				t.Errorf("ensure = %+v, %v; want an error, ErrNoRoom: %v", e, err, c.noRoom)
			}
			if len(disk.record) != 0 {
				t.Errorf("the disk was written %d times; want it untouched", len(disk.record))
			}
		})
	}
}

// TestBadTemplates checks that a template which is not whole makes no
// partition, and that one which is too large writes nothing outside of it.
func TestBadTemplates(t *testing.T) {
	whole := func() []byte {
		r, _ := packed(stateContents())()
		b, _ := io.ReadAll(r)
		return b
	}()
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-6] ^= 1 // in the checksum
	reader := func(b []byte) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
	}
	for name, template := range map[string]func() (io.ReadCloser, error){
		"absent":         func() (io.ReadCloser, error) { return nil, os.ErrNotExist },
		"empty file":     reader(nil),
		"not compressed": reader([]byte("state")),
		"cut short":      reader(whole[:len(whole)/2]),
		"wrong checksum": reader(flipped),
		"too large":      packed(slices.Repeat([]byte{1}, 33*mib)),
	} {
		t.Run(name, func(t *testing.T) {
			disk := newRAMDisk(38 * mib) // STATE has 32 MiB
			writeGPT(t, disk, disk.size)
			disk.record = nil
			if e, err := ensure(disk, disk.size, template); err == nil {
				t.Errorf("ensure = %+v; want an error", e)
			}
			for _, o := range disk.record {
				if o.data != nil && (o.off < 5*mib || o.off+int64(len(o.data)) > 37*mib) {
					t.Errorf("bytes %d to %d were written; want none outside of 5 to 37 MiB", o.off, o.off+int64(len(o.data)))
				}
			}
			if e, err := Find(disk, disk.size); !errors.Is(err, ErrNoState) {
				t.Errorf("Find afterwards = %+v, %v; want %v", e, err, ErrNoState)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	if _, _, err := Open(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open of nothing = %v; want %v", err, os.ErrNotExist)
	}
	if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	f, size, err := Open(path)
	if err != nil || size != 4096 {
		t.Fatalf("Open = %d bytes, %v; want 4096", size, err)
	}
	f.Close()
}
