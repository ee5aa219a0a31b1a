package volume

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"machined/hal"
	"machined/hal/signature"
)

// Provisioner is the real hal.Provisioner.
type Provisioner struct {
	disks    hal.Disks
	mu       sync.Mutex // one disk at a time
	open     func(path string, exclusive bool) (*opened, error)
	template func(name string) (io.ReadCloser, error)
	random   func([]byte)
}

// NewProvisioner returns the provisioner of a node. templates is the directory
// with the gzipped file systems that a volume starts from; disks tells the
// kernel of the new partitions.
func NewProvisioner(disks hal.Disks, templates string) *Provisioner {
	return &Provisioner{
		disks: disks, open: openDisk,
		template: func(name string) (io.ReadCloser, error) { return os.Open(filepath.Join(templates, name)) },
		random:   func(b []byte) { _, _ = rand.Read(b) }, // it never fails
	}
}

// uuid returns a random UUID, version 4 (RFC 9562), in the byte order of that
// RFC; a GPT reads the first fields the other way round, which is as random.
func (p *Provisioner) uuid() [16]byte {
	var id [16]byte
	p.random(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// Provision implements hal.Provisioner.
func (p *Provisioner) Provision(r hal.Provision) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := checkVolumes(r.Volumes); err != nil {
		return err
	}
	if isPartition(r.Disk) {
		return fmt.Errorf("%s is a partition, and no disk to be provisioned: %w", r.Disk, hal.ErrInvalid)
	}
	if r.Wipe {
		if err := p.fresh(r.Disk, true, r.Volumes); err != nil {
			return err
		}
	}
	disk, table, err := p.openTable(r.Disk, r.Volumes)
	if err != nil {
		return err
	}
	defer disk.Close()
	w := &work{p: p, disk: disk, table: table}
	if err := w.plan(r.Volumes); err != nil {
		return fmt.Errorf("provision %s: %w", r.Disk, err)
	}
	if err := w.repair(); err != nil {
		return fmt.Errorf("repair the partition table of %s: %w", r.Disk, err)
	}
	for _, s := range w.steps {
		if err := w.do(s); err != nil {
			return fmt.Errorf("provide %s on %s: %w", s.label, r.Disk, err)
		}
	}
	return nil
}

// maxSize is beyond every disk, and far from where sums overflow.
const maxSize = 1 << 56

// checkVolumes refuses what no disk can have.
func checkVolumes(volumes []hal.NewVolume) error {
	seen := make(map[string]bool)
	for i, v := range volumes {
		switch {
		case !validLabel(v.Label):
			return fmt.Errorf("%q is no label: it has 1 to %d letters, digits, - or _: %w", v.Label, labelSize, hal.ErrInvalid)
		case seen[v.Label]:
			return fmt.Errorf("two volumes are called %s: %w", v.Label, hal.ErrInvalid)
		case v.Size == 0 && i != len(volumes)-1:
			return fmt.Errorf("%s takes the rest of the disk, so it has to be the last volume: %w", v.Label, hal.ErrInvalid)
		case v.Size < 0 || v.Size > 0 && v.Size < hal.MinVolume:
			return fmt.Errorf("%s is to have %d bytes; a volume has %d or more: %w", v.Label, v.Size, int64(hal.MinVolume), hal.ErrInvalid)
		}
		if v.Size > maxSize {
			return fmt.Errorf("%s is to have %d bytes, more than any disk: %w", v.Label, v.Size, hal.ErrNoSpace)
		}
		seen[v.Label] = true
	}
	return nil
}

func validLabel(s string) bool {
	for _, c := range []byte(s) {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= labelSize
}

// openTable opens a disk and reads its table, which a blank disk is given.
func (p *Provisioner) openTable(path string, volumes []hal.NewVolume) (*opened, *signature.Table, error) {
	disk, table, err := p.readTable(path)
	if err != nil {
		return nil, nil, err
	}
	if table.Kind != hal.NoTable && table.Damage == "" {
		return disk, table, nil
	}
	defer disk.Close()
	if err := mayBegin(disk, table); err != nil {
		return nil, nil, err
	}
	if err := p.fresh(path, false, volumes); err != nil {
		return nil, nil, err
	}
	return p.readTable(path)
}

func (p *Provisioner) readTable(path string) (*opened, *signature.Table, error) {
	disk, err := p.open(path, false)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", path, err)
	}
	table, err := signature.ReadTable(disk, disk.size, disk.block)
	if err != nil {
		disk.Close()
		return nil, nil, fmt.Errorf("read the partition table of %s: %w", path, err)
	}
	return disk, &table, nil
}

// mayBegin says why a disk that has no whole table must not be given one.
func mayBegin(disk *opened, table *signature.Table) error {
	begun, err := Begun(disk, disk.size, disk.block)
	if err != nil {
		return fmt.Errorf("look whether %s is blank: %w", disk.path, err)
	}
	if begun {
		return nil
	}
	what := table.Damage
	if what == "" {
		content, err := signature.Read(disk, disk.size)
		if err != nil {
			return fmt.Errorf("look at what %s holds: %w", disk.path, err)
		}
		what = "it holds " + describe(content)
	}
	return fmt.Errorf("%s has no partition table that can be used (%s); it is left alone unless it is to be wiped: %w", disk.path, what, hal.ErrInvalid)
}

func describe(c signature.Content) string {
	switch {
	case c.Blank:
		return "nothing"
	case c.FS == "":
		return "something unknown"
	case c.Label == "":
		return c.FS
	}
	return fmt.Sprintf("%s of the label %q", c.FS, c.Label)
}

// volumeDevice opens a volume that the kernel knows as path, or through its
// disk where it has no device of its own.
func (p *Provisioner) volumeDevice(disk *opened, path string, e Extent, exclusive bool) (Disk, error) {
	device, err := p.open(path, exclusive)
	if errors.Is(err, hal.ErrNoDevice) {
		return part{opened: disk, extent: e}, nil
	}
	if err != nil {
		return nil, err
	}
	if device.size != e.Size {
		device.Close()
		return nil, fmt.Errorf("%s has %d bytes and the partition table says %d: restart the node", path, device.size, e.Size)
	}
	return device, nil
}

var _ hal.Provisioner = (*Provisioner)(nil)
