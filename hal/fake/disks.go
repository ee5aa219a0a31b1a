package fake

import (
	"strconv"

	"machined/hal"
)

// Disks is a simulated hal.Disks.
type Disks struct {
	Faults
	// Blocks, when set, holds devices whose ext4 can be grown once it is
	// mounted by Blocks.Mounts.
	Blocks *BlockDevices

	disks   []disk
	volumes []volume
}

type disk struct {
	path  string
	size  int64
	parts []part
}

type part struct {
	number      int
	start, size int64
}

type volume struct {
	target       string
	source       string // device of Blocks, "" for one of AddExt4
	size, device int64  // bytes
}

const ext4Block = 4096

// AddDisk makes a disk of size bytes known.
func (d *Disks) AddDisk(path string, size int64) {
	d.disks = append(d.disks, disk{path: path, size: size})
}

// AddExt4 makes an ext4 of size bytes known, mounted at target from a device
// of deviceSize bytes.
func (d *Disks) AddExt4(target string, size, deviceSize int64) {
	d.volumes = append(d.volumes, volume{target: target, size: size, device: deviceSize})
}

// Ext4Size returns the size in bytes of the ext4 at target, 0 for none.
func (d *Disks) Ext4Size(target string) int64 {
	for _, v := range d.volumes {
		if v.target == target {
			return v.size
		}
	}
	return 0
}

// AddPartition implements hal.Disks.
func (d *Disks) AddPartition(path string, number int, start, size int64) (string, error) {
	if err := d.failing("AddPartition"); err != nil {
		return "", err
	}
	for i := range d.disks {
		if d.disks[i].path == path {
			return partitionPath(path, number), d.disks[i].add(part{number: number, start: start, size: size})
		}
	}
	return "", hal.ErrNoDevice
}

// RemovePartition implements hal.Disks.
func (d *Disks) RemovePartition(path string, number int) error {
	if err := d.failing("RemovePartition"); err != nil {
		return err
	}
	for i := range d.disks {
		if d.disks[i].path == path {
			d.disks[i].remove(number)
		}
	}
	return nil
}

func (d *disk) remove(number int) {
	kept := d.parts[:0]
	for _, p := range d.parts {
		if p.number != number {
			kept = append(kept, p)
		}
	}
	d.parts = kept
}

func (d *disk) add(p part) error {
	if p.number < 1 || p.size <= 0 || p.start < 0 || p.start+p.size > d.size {
		return hal.ErrInvalid
	}
	for _, other := range d.parts {
		if other == p {
			return nil
		}
		if other.number == p.number || p.start < other.start+other.size && other.start < p.start+p.size {
			return ErrBusy
		}
	}
	d.parts = append(d.parts, p)
	return nil
}

// partitionPath follows the kernel: a p stands between two digits.
func partitionPath(disk string, number int) string {
	if last := disk[len(disk)-1]; last >= '0' && last <= '9' {
		disk += "p"
	}
	return disk + strconv.Itoa(number)
}

// GrowExt4 implements hal.Disks.
func (d *Disks) GrowExt4(target string, size int64) error {
	if err := d.failing("GrowExt4"); err != nil {
		return err
	}
	size -= size % ext4Block
	d.learn(target)
	for i := range d.volumes {
		v := &d.volumes[i]
		if v.target != target {
			continue
		}
		if size > v.device {
			return hal.ErrInvalid
		}
		v.size = max(v.size, size)
		return nil
	}
	return hal.ErrNotMounted
}

// templateSize is what an ext4 has in bytes before it is grown.
const templateSize = 3 << 20

// learn looks whether an ext4 of Blocks is mounted at target: another one,
// perhaps, than the last time.
func (d *Disks) learn(target string) {
	if d.Blocks == nil || d.Blocks.Mounts == nil {
		return
	}
	i := d.Blocks.Mounts.top(target)
	if i < 0 || d.Blocks.Mounts.mounts[i].FSType != "ext4" {
		return
	}
	device, ok := d.Blocks.byPath(d.Blocks.Mounts.mounts[i].Source)
	if !ok {
		return
	}
	found := volume{target: target, source: device.Path, size: templateSize, device: device.Size}
	for i, v := range d.volumes {
		if v.target == target {
			if v.source != "" && (v.source != found.source || v.device != found.device) {
				d.volumes[i] = found
			}
			return
		}
	}
	d.volumes = append(d.volumes, found)
}

var _ hal.Disks = (*Disks)(nil)
