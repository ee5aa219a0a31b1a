package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/diskfs/go-diskfs/backend"

	"machined/hal"
	"machined/hal/signature"
)

const (
	sectorSize = 512 // the unit that a disk writes whole or not at all
	pageSize   = 4096
)

// page is never changed, so that clones can share it.
type page [pageSize]byte

// ramDisk is a sparse disk in memory that keeps a record of what is done to
// it.
type ramDisk struct {
	backend.WritableFile // what go-diskfs asks for beside
	size                 int64
	fill                 byte // what was never written holds it
	pages                map[int64]*page
	empty                *page // full of fill
	record               []op
	rereads              int
}

// op is a write, or a sync when data is nil.
type op struct {
	off  int64
	data []byte
}

func newRAMDisk(size int64) *ramDisk { return &ramDisk{size: size, pages: make(map[int64]*page)} }

// clone returns a disk of the same contents and size without a record.
func (d *ramDisk) clone() *ramDisk {
	return &ramDisk{size: d.size, fill: d.fill, pages: maps.Clone(d.pages)}
}

// page returns a page that must not be changed.
func (d *ramDisk) page(n int64) *page {
	if p := d.pages[n]; p != nil {
		return p
	}
	if d.empty == nil {
		d.empty = new(page)
		copy(d.empty[:], bytes.Repeat([]byte{d.fill}, pageSize))
	}
	return d.empty
}

func (d *ramDisk) ReadAt(b []byte, off int64) (int, error) {
	if off >= d.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), d.size-off))
	for done := 0; done < n; {
		at := (off + int64(done)) % pageSize
		next := min(done+int(pageSize-at), n)
		copy(b[done:next], d.page((off + int64(done)) / pageSize)[at:])
		done = next
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
		p, n := new(page), off/pageSize
		*p = *d.page(n)
		done := copy(p[off%pageSize:], b)
		d.pages[n] = p
		b, off = b[done:], off+int64(done)
	}
}

func (d *ramDisk) Sync() error {
	d.record = append(d.record, op{})
	return nil
}

func (d *ramDisk) Reread() error { d.rereads++; return nil }
func (d *ramDisk) Close() error  { return nil }

// writes counts the writes in the record.
func (d *ramDisk) writes() int {
	n := 0
	for _, o := range d.record {
		if o.data != nil {
			n++
		}
	}
	return n
}

var _ Disk = (*ramDisk)(nil)

// kernel is a hal.Disks that keeps what it is told.
type kernel struct {
	hal.Disks
	told []Extent
	err  error
}

func (k *kernel) AddPartition(disk string, number int, start, size int64) (string, error) {
	k.told = append(k.told, Extent{Number: number, Start: start, Size: size})
	return fmt.Sprint(disk, number), k.err
}

func (k *kernel) RemovePartition(_ string, number int) error {
	k.told = slices.DeleteFunc(k.told, func(e Extent) bool { return e.Number == number })
	return nil
}

const ramPath = "/dev/ram"

// newProvisioner returns a provisioner of which disk is the only one.
func newProvisioner(disk *ramDisk, templates templates) (*Provisioner, *kernel) {
	k, count := &kernel{}, byte(0)
	p := NewProvisioner(k, "")
	p.open = func(path string, _ bool) (*opened, error) {
		if path != ramPath {
			return nil, hal.ErrNoDevice
		}
		return &opened{Disk: disk, path: path, size: disk.size, block: 512}, nil
	}
	p.template = templates.open
	p.random = func(b []byte) {
		count++
		for i := range b {
			b[i] = count
		}
	}
	return p, k
}

// provision does one call.
func provision(disk *ramDisk, templates templates, wipe bool, volumes ...hal.NewVolume) error {
	p, _ := newProvisioner(disk, templates)
	return p.Provision(hal.Provision{Disk: ramPath, Wipe: wipe, Volumes: volumes})
}

func mustProvision(t *testing.T, disk *ramDisk, templates templates, volumes ...hal.NewVolume) {
	t.Helper()
	if err := provision(disk, templates, false, volumes...); err != nil {
		t.Fatalf("Provision = %v; want success", err)
	}
}

func mustFind(t *testing.T, disk *ramDisk, label string) Extent {
	t.Helper()
	e, err := Find(disk, disk.size, label)
	if err != nil {
		t.Fatalf("Find(%s) = %v; want it", label, err)
	}
	return e
}

func readAt(t *testing.T, disk io.ReaderAt, off, n int64) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := disk.ReadAt(b, off); err != nil {
		t.Fatal(err)
	}
	return b
}

func readTable(t *testing.T, disk *ramDisk) signature.Table {
	t.Helper()
	table, err := signature.ReadTable(disk, disk.size, 512)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

var (
	state     = hal.NewVolume{Label: "STATE", Size: 16 * mib}
	ephemeral = hal.NewVolume{Label: "EPHEMERAL"}
)
