package fake

import "machined/hal"

// BlockDevices is a simulated hal.BlockDevices. A test, or a Provisioner,
// changes what there is; each change is seen at once, as by a scan.
type BlockDevices struct {
	// Mounts, when set, can mount what is here, and loses what is removed.
	Mounts *Mounts
	// Rescans counts the calls of Rescan.
	Rescans int

	devices []hal.BlockDevice
	scans   uint64
}

// Devices implements hal.BlockDevices.
func (b *BlockDevices) Devices() []hal.BlockDevice { return b.devices }

// Scans implements hal.BlockDevices.
func (b *BlockDevices) Scans() uint64 { return b.scans }

// Rescan implements hal.BlockDevices.
func (b *BlockDevices) Rescan() {
	b.Rescans++
	b.Scan()
}

// Scan ends the first scan of a machine that may have no disks at all. Later
// ones find nothing new.
func (b *BlockDevices) Scan() {
	if b.scans == 0 {
		b.scans = 1
	}
}

// AddDisk plugs a disk in. Path, Disk and, for a disk without a table, Unused
// follow from the rest.
func (b *BlockDevices) AddDisk(d hal.BlockDevice) {
	d.Disk, d.Number, d.Start = d.Name, 0, 0
	b.put(d)
}

// AddPartition makes a partition of a disk known that is there: Disk, Number,
// Start and Size name it. Name and Path follow from them.
func (b *BlockDevices) AddPartition(p hal.BlockDevice) {
	path := partitionPath("/dev/"+p.Disk, p.Number)
	p.Name = path[len("/dev/"):]
	b.put(p)
}

// Change replaces what is known of a device, such as its content.
func (b *BlockDevices) Change(d hal.BlockDevice) { b.put(d) }

// Remove takes a device away, and a disk's partitions with it. Mounts stay, as
// in the kernel.
func (b *BlockDevices) Remove(name string) {
	gone, _ := b.Find(name)
	b.keep(func(d hal.BlockDevice) bool { return d.Name != name && d.Disk != name })
	b.measure(gone.Disk)
}

// Find returns the device of that name.
func (b *BlockDevices) Find(name string) (hal.BlockDevice, bool) {
	for _, d := range b.devices {
		if d.Name == name {
			return d, true
		}
	}
	return hal.BlockDevice{}, false
}

// byPath returns the whole disk at that path.
func (b *BlockDevices) byPath(path string) (hal.BlockDevice, bool) {
	for _, d := range b.devices {
		if d.Path == path {
			return d, true
		}
	}
	return hal.BlockDevice{}, false
}

// partitions returns those of a disk.
func (b *BlockDevices) partitions(disk string) []hal.BlockDevice {
	var found []hal.BlockDevice
	for _, d := range b.devices {
		if d.Disk == disk && d.Number > 0 {
			found = append(found, d)
		}
	}
	return found
}

// put adds or replaces a device. Callers may hold the slice of before, so a
// new one is made.
func (b *BlockDevices) put(d hal.BlockDevice) {
	if d.Path == "" {
		d.Path = "/dev/" + d.Name
	}
	var next []hal.BlockDevice
	placed := false
	for _, other := range b.devices {
		if !placed && !before(other, d) {
			next, placed = append(next, d), true
		}
		if other.Name != d.Name {
			next = append(next, other)
		}
	}
	if !placed {
		next = append(next, d)
	}
	b.devices = next
	b.scans++
	b.measure(d.Disk)
	if b.Mounts != nil && (d.Number > 0 || d.FS != "") {
		b.Mounts.setDevice(d.Path, d.FS, d.ReadOnly)
	}
}

func (b *BlockDevices) keep(stays func(hal.BlockDevice) bool) {
	var next []hal.BlockDevice
	for _, d := range b.devices {
		if stays(d) {
			next = append(next, d)
		} else if b.Mounts != nil {
			b.Mounts.RemoveDevice(d.Path)
		}
	}
	if len(next) == len(b.devices) {
		return
	}
	b.devices = next
	b.scans++
}

// before orders by disk, and then by number.
func before(a, b hal.BlockDevice) bool {
	if a.Disk != b.Disk {
		return a.Disk < b.Disk
	}
	return a.Number < b.Number
}

// measure sets a disk's Unused.
func (b *BlockDevices) measure(disk string) {
	for i := range b.devices {
		d := &b.devices[i]
		if d.Name != disk || d.Number > 0 {
			continue
		}
		d.Unused = d.Size
		if d.Table != hal.NoTable {
			_, d.Unused = b.largest(*d)
		}
	}
}

// largest returns the largest free space of a disk with a table, in whole MiB:
// the first and, in a GPT, the last MiB are the table's.
func (b *BlockDevices) largest(disk hal.BlockDevice) (start, length int64) {
	end := disk.Size
	if disk.Table == hal.GPT {
		end -= 33 * 512
	}
	parts := b.partitions(disk.Name)
	for _, before := range append(parts, hal.BlockDevice{Size: mib}) {
		from := wholeMiB(before.Start + before.Size)
		to := end
		for _, p := range parts {
			if p.Start+p.Size > from {
				to = min(to, p.Start)
			}
		}
		free := (to - from) / mib * mib
		if free > length || free > 0 && free == length && from < start {
			start, length = from, free
		}
	}
	return start, length
}

var _ hal.BlockDevices = (*BlockDevices)(nil)
