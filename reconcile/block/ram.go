package block

import (
	"time"

	"machined/hal"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// A node that was netbooted has no boot disk. Where one of its disks has a STATE
// that one is used; otherwise the volumes are in RAM, and no disk is touched.

const (
	// ramWait is how long after the kernel's start a disk with a STATE is waited
	// for: disks on USB appear seconds late.
	ramWait = 5 * time.Second
	// bootLabel is the label of the FAT file system of our boot partitions.
	bootLabel = "MACHINED"
)

// ramOptions are the mount options of a volume in RAM. STATE has a config or two
// and keys; EPHEMERAL gets what tmpfs gives by default.
func ramOptions(i int) string { return [2]string{"mode=0700,size=16m", "mode=0755,size=50%"}[i] }

// adopt returns the disk that has a STATE; found is how many have. The last one
// is named in list.
func adopt(devices []hal.BlockDevice) (disk hal.BlockDevice, list string, found int) {
	for _, d := range devices {
		if d.Number != 0 {
			continue
		}
		for _, p := range partitionsOf(d, devices) {
			if p.FS == "ext4" && volumeIndex(d, p, true) == 0 {
				disk, list, found = d, listed(list, d.Path), found+1
				break
			}
		}
	}
	return disk, list, found
}

// bootOn returns the path of the boot partition that an image of ours has put on
// a disk, "" for none: beside it an MBR has our volumes, and its disk is not wiped.
func bootOn(disk hal.BlockDevice, devices []hal.BlockDevice) string {
	return BootOn(partitionsOf(disk, devices))
}

// BootOn is bootOn by the partitions of a disk.
func BootOn(partitions []hal.BlockDevice) string {
	for _, p := range partitions {
		if p.FS == "vfat" && p.FSLabel == bootLabel {
			return p.Path
		}
	}
	return ""
}

// goesToRAM decides whether the volumes are in RAM. It does so once a boot: what
// was put there does not move to a disk that comes later. wait says that it is too
// early to tell.
func (c *Volumes) goesToRAM(r *reconcile.Run, devices []hal.BlockDevice) (ram, wait bool) {
	settings := c.Settings()
	if !c.InRAM || c.ram || c.adopted || settings.Disk != "" || settings.Selector != nil {
		return c.ram, false
	}
	if _, _, found := adopt(devices); found > 0 {
		c.adopted = true // it may be pulled out, and comes back with what was written
		return false, false
	}
	if r.Now < ramWait {
		r.WakeAt(ramWait)
		return false, true
	}
	c.ram = true
	return true, false
}

// mountRAM mounts a volume in RAM, or says how that stands.
func (c *Volumes) mountRAM(r *reconcile.Run, i int, mounted []hal.MountInfo, status *resource.VolumeStatus) error {
	const tmpfs = "tmpfs"
	status.FS, status.Device = tmpfs, tmpfs
	m := &c.mounting[i]
	if m.job != nil && m.job.Done() {
		if err := m.job.Err(); err != nil {
			m.again.failed(r.Now, err)
		}
		m.job = nil
	}
	if _, ok := mountedAt(mounted, c.Targets[i]); ok && m.job == nil {
		status.Phase, status.Message, m.again = Ready, "in RAM: its content is gone after a restart", retry{}
		return nil
	}
	if m.job == nil && m.again.waits(r.Now) {
		r.WakeAt(m.again.at)
		status.Phase, status.Message = Failed, m.again.err.Error()
		return m.again.err
	}
	if m.job == nil {
		mounts := c.Mounts
		mount := hal.Mount{Source: tmpfs, Target: c.Targets[i], FSType: tmpfs, Flags: volumeFlags(i), Data: ramOptions(i)}
		m.job = c.Jobs.Start(func() error { return mounts.Mount(mount) })
	}
	status.Phase = Mounting
	return m.again.err
}

// volumeFlags are those of a volume's mount.
func volumeFlags(i int) hal.MountFlags {
	flags := hal.NoSuid | hal.NoDev
	if i == 0 {
		flags |= hal.NoExec // EPHEMERAL holds the programs of containers
	}
	return flags
}
