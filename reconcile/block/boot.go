package block

import "machined/hal"

// bootDisk is what the disk that the node was booted from is known by. A name is
// not enough: a USB disk that comes loose for a moment comes back by another one,
// since its old name is in use as long as something is mounted from it, and what
// is plugged in later may get the old one. The disk must not be wiped then, nor
// another be taken for it.
type bootDisk struct {
	known         bool
	model, serial string
	size          int64
	uuid          string // of the boot partition
}

// find returns the name of the boot disk and the path of the boot partition, as
// they are now; "" while they are not there.
func (b *bootDisk) find(c *Volumes, devices []hal.BlockDevice) (disk, boot string) {
	if c.Boot == "" {
		return c.BootDisk, ""
	}
	for _, p := range devices {
		whole := diskOf(p, devices)
		if !b.known && p.Path == c.Boot && p.FSUUID != "" {
			*b = bootDisk{true, whole.Model, whole.Serial, whole.Size, p.FSUUID}
		}
		if b.known && p.Number != 0 && b.is(whole, p) && (boot == "" || p.Path == c.Boot) {
			disk, boot = p.Disk, p.Path
		}
	}
	if !b.known {
		return c.BootDisk, c.Boot
	}
	return disk, boot
}

func (b *bootDisk) is(disk, boot hal.BlockDevice) bool {
	return disk.Model == b.model && disk.Serial == b.serial && disk.Size == b.size && boot.FSUUID == b.uuid
}

// diskOf returns the whole disk of a device.
func diskOf(d hal.BlockDevice, devices []hal.BlockDevice) hal.BlockDevice {
	for _, other := range devices {
		if other.Name == d.Disk {
			return other
		}
	}
	return hal.BlockDevice{}
}
