package volume

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"maps"
	"testing"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/diskfs/go-diskfs/partition/mbr"
)

const mib = 1 << 20

// sector is the unit that a disk writes whole or not at all.
type sector [sectorSize]byte

// ramDisk is a sparse disk in memory that keeps a record of what is done to
// it.
type ramDisk struct {
	size    int64
	sectors map[int64]sector
	record  []op
}

// op is a write, or a sync when data is nil.
type op struct {
	off  int64
	data []byte
}

func newRAMDisk(size int64) *ramDisk { return &ramDisk{size: size, sectors: make(map[int64]sector)} }

// clone returns a disk of the same contents and size without a record.
func (d *ramDisk) clone() *ramDisk { return &ramDisk{size: d.size, sectors: maps.Clone(d.sectors)} }

func (d *ramDisk) ReadAt(b []byte, off int64) (int, error) {
	if off >= d.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), d.size-off))
	for done := 0; done < n; {
		s := d.sectors[(off+int64(done))/sectorSize]
		done += copy(b[done:n], s[(off+int64(done))%sectorSize:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (d *ramDisk) WriteAt(b []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(b)) > d.size {
		return 0, errors.New("no space left on device")
	}
	d.record = append(d.record, op{off: off, data: bytes.Clone(b)})
	d.apply(off, b)
	return len(b), nil
}

func (d *ramDisk) apply(off int64, b []byte) {
	for len(b) > 0 {
		s := d.sectors[off/sectorSize]
		n := copy(s[off%sectorSize:], b)
		d.sectors[off/sectorSize] = s
		b, off = b[n:], off+int64(n)
	}
}

func (d *ramDisk) Sync() error {
	d.record = append(d.record, op{})
	return nil
}

func (d *ramDisk) Seek(off int64, whence int) (int64, error) {
	if whence != io.SeekEnd {
		return 0, errors.ErrUnsupported
	}
	return d.size + off, nil
}

func (d *ramDisk) Read([]byte) (int, error)   { return 0, errors.ErrUnsupported }
func (d *ramDisk) Close() error               { return nil }
func (d *ramDisk) Stat() (fs.FileInfo, error) { return nil, errors.ErrUnsupported }

var _ Disk = (*ramDisk)(nil)

const (
	bootStart, bootSize = 1 * mib, 4 * mib
	bootMark            = 8 << 10 // bytes at either end that are checked
	bootGUID            = "AAAAAAAA-0001-4000-8000-000000000002"
)

// writeGPT puts an image's GPT on disk, made for tableSize bytes.
func writeGPT(t *testing.T, disk Disk, tableSize int64, more ...*gpt.Partition) {
	t.Helper()
	table := &gpt.Table{
		LogicalSectorSize: sectorSize, PhysicalSectorSize: sectorSize, ProtectiveMBR: true, GUID: "AAAAAAAA-0001-4000-8000-000000000001",
		Partitions: append([]*gpt.Partition{{
			Index: 1, Name: "EFI", Type: gpt.EFISystemPartition, GUID: bootGUID,
			Start: bootStart / sectorSize, Size: bootSize, End: (bootStart+bootSize)/sectorSize - 1,
		}}, more...),
	}
	if err := table.Write(disk, tableSize); err != nil {
		t.Fatal(err)
	}
	writeBoot(t, disk)
}

// writeMBR puts an image's MBR on disk, with its signature.
func writeMBR(t *testing.T, disk Disk, more ...*mbr.Partition) {
	t.Helper()
	table := &mbr.Table{
		LogicalSectorSize: sectorSize, PhysicalSectorSize: sectorSize,
		Partitions: append([]*mbr.Partition{{
			Index: 1, Bootable: true, Type: mbr.Fat32LBA, Start: bootStart / sectorSize, Size: bootSize / sectorSize,
		}}, more...),
	}
	if err := table.Write(disk, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.WriteAt([]byte{0xcd, 0xab, 0x34, 0x12}, 440); err != nil {
		t.Fatal(err)
	}
	writeBoot(t, disk)
}

func bootContents() []byte { return bytes.Repeat([]byte("boot partition. "), bootMark/16) }

// writeBoot marks the start and the end of the boot partition.
func writeBoot(t *testing.T, disk Disk) {
	t.Helper()
	for _, at := range []int64{bootStart, bootStart + bootSize - bootMark} {
		if _, err := disk.WriteAt(bootContents(), at); err != nil {
			t.Fatal(err)
		}
	}
}

func checkBoot(t *testing.T, disk Disk) {
	t.Helper()
	for _, at := range []int64{bootStart, bootStart + bootSize - bootMark} {
		if got := readAt(t, disk, at, bootMark); !bytes.Equal(got, bootContents()) {
			t.Fatalf("the boot partition has changed at %d", at)
		}
	}
}

func readAt(t *testing.T, disk Disk, off, n int64) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := disk.ReadAt(b, off); err != nil {
		t.Fatal(err)
	}
	return b
}

// stateContents is the template, unpacked: not all of it, like an ext4, is
// anything but zero.
func stateContents() []byte {
	b := make([]byte, 70_000)
	for i := range b {
		if i/5000%3 > 0 {
			b[i] = byte(i>>8) ^ byte(i)
		}
	}
	return b
}

func packed(contents []byte) func() (io.ReadCloser, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(contents)
	_ = z.Close()
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
}

// ensure does what a boot does.
func ensure(disk Disk, size int64, template func() (io.ReadCloser, error)) (Extent, error) {
	e, err := Find(disk, size)
	if errors.Is(err, ErrNoState) {
		return Create(disk, size, template)
	}
	return e, err
}
