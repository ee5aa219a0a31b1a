package linux

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"machined/hal"
	"machined/hal/linux/volume"
	"machined/hal/signature"
)

// openBlock does not wait for a medium. It is no exclusive open: what is
// mounted is read as well.
func openBlock(path string) (blockFile, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// read returns what is on a disk and its partitions.
func (b *BlockDevices) read(d sysDisk) reading {
	whole := d.device(b.dev)
	b.describe(&whole)
	table, err := b.readTable(&whole, d.block)
	if errors.Is(err, unix.ENOMEDIUM) {
		return reading{}
	}
	found := reading{devices: []hal.BlockDevice{whole}, failed: err != nil}
	for _, p := range d.parts {
		device := p.device(b.dev)
		device.Disk = d.name
		for _, entry := range table.Partitions {
			// The kernel may know another table than the one that is written.
			if entry.Number == p.number && entry.Start == p.start {
				device.Label, device.Type = entry.Label, entry.Type
			}
		}
		if err := b.readContent(&device); err != nil {
			device.Trouble, found.failed = err.Error(), true
		}
		found.devices = append(found.devices, device)
	}
	return found
}

func (b *BlockDevices) readTable(d *hal.BlockDevice, block int64) (signature.Table, error) {
	f, err := b.open(d.Path)
	if err != nil {
		d.Trouble = err.Error()
		return signature.Table{}, err
	}
	defer f.Close()
	table, err := signature.ReadTable(f, d.Size, block)
	if err == nil {
		err = content(f, d)
	}
	if err != nil {
		d.Trouble = fmt.Sprintf("read %s: %v", d.Path, err)
		return signature.Table{}, err
	}
	d.Table, d.Trouble = table.Kind, table.Damage
	d.Unused = d.Size
	if table.Damage != "" {
		// An empty disk that lost its power while it got its first table is
		// an empty disk.
		if begun, err := volume.Begun(f, d.Size, block); err == nil && begun {
			d.Table, d.Trouble, d.Blank = hal.NoTable, "", true
			return signature.Table{}, nil
		}
	}
	if table.Kind != hal.NoTable {
		_, d.Unused = table.Largest()
	}
	return table, nil
}

func (b *BlockDevices) readContent(d *hal.BlockDevice) error {
	f, err := b.open(d.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := content(f, d); err != nil {
		return fmt.Errorf("read %s: %w", d.Path, err)
	}
	return nil
}

func content(f io.ReaderAt, d *hal.BlockDevice) error {
	c, err := signature.Read(f, d.Size)
	d.FS, d.FSLabel, d.FSUUID, d.Blank = c.FS, c.Label, c.UUID, c.Blank
	return err
}

// silent is a disk that does not answer, as far as sysfs knows it.
func (d sysDisk) silent(dev string) reading {
	r := reading{devices: []hal.BlockDevice{d.device(dev)}, failed: true}
	for _, p := range d.parts {
		device := p.device(dev)
		device.Disk = d.name
		r.devices = append(r.devices, device)
	}
	for i := range r.devices {
		r.devices[i].Trouble = "it does not answer"
	}
	return r
}
