package conformance

import (
	"slices"

	"machined/hal"
	"machined/hal/fake"
)

func diskCases() []Case {
	return []Case{
		{"disks: a partition is added once, and over no other", diskPartitions},
		{"disks: an ext4 grows by whole blocks and never shrinks", diskGrow},
	}
}

func mountCases() []Case {
	return []Case{
		{"mounts: they are listed as they were made", mountList},
		{"mounts: a busy one goes lazily only", mountBusy},
		{"mounts: a loop device goes with its last user", mountLoop},
	}
}

func diskPartitions(t T) {
	d := &fake.Disks{}
	d.AddDisk("/dev/mmcblk0", 64*mib)
	for range 2 { // one that the kernel knows already is no error
		path, err := d.AddPartition("/dev/mmcblk0", 2, 8*mib, 16*mib)
		expect(t, "AddPartition", err, nil)
		sameText(t, "AddPartition", path, "/dev/mmcblk0p2")
	}
	_, err := d.AddPartition("/dev/mmcblk0", 3, 16*mib, 16*mib)
	expect(t, "AddPartition over another", err, fake.ErrBusy)
	_, err = d.AddPartition("/dev/mmcblk0", 2, 32*mib, 16*mib)
	expect(t, "AddPartition at another place", err, fake.ErrBusy)
	_, err = d.AddPartition("/dev/mmcblk0", 3, 60*mib, 16*mib)
	expect(t, "AddPartition past the end", err, hal.ErrInvalid)
	_, err = d.AddPartition("/dev/sda", 1, mib, mib)
	expect(t, "AddPartition on no disk", err, hal.ErrNoDevice)
}

func diskGrow(t T) {
	d := &fake.Disks{}
	d.AddExt4("/state", 16*mib, 32*mib)
	for _, c := range []struct{ to, want int64 }{
		{24*mib + 512, 24 * mib}, {16 * mib, 24 * mib}, {32 * mib, 32 * mib},
	} {
		expect(t, "GrowExt4", d.GrowExt4("/state", c.to), nil)
		sameNumber(t, "the size", d.Ext4Size("/state"), c.want)
	}
	check(t, d.GrowExt4("/state", 33*mib) != nil, "an ext4 does not grow past its device")
	expect(t, "GrowExt4 of no mount", d.GrowExt4("/other", mib), hal.ErrNotMounted)
}

func tmpfs(target string) hal.Mount {
	return hal.Mount{Source: "tmpfs", Target: target, FSType: "tmpfs"}
}

func mountList(t T) {
	m := &fake.Mounts{}
	targets := []string{"/b", "/a", "/b/c"}
	for _, target := range targets {
		expect(t, "Mount", m.Mount(tmpfs(target)), nil)
	}
	expect(t, "Mount of no device", m.Mount(hal.Mount{Source: "/dev/sda1", Target: "/d", FSType: "ext4"}), hal.ErrNoDevice)
	listed, err := m.List()
	expect(t, "List", err, nil)
	check(t, slices.EqualFunc(listed, targets, func(i hal.MountInfo, target string) bool { return i.Target == target }),
		"the mounts are those that were made, in their order")
	expect(t, "Mount(Move)", m.Mount(hal.Mount{Source: "/b", Target: "/n", Flags: hal.Move}), nil)
	expect(t, "Unmount of what moved along", m.Unmount("/n/c", false), nil)
	expect(t, "Unmount of where it was", m.Unmount("/b", false), hal.ErrNotMounted)
	expect(t, "Unmount of where it is", m.Unmount("/n", false), nil)
}

func mountBusy(t T) {
	m := &fake.Mounts{}
	expect(t, "Mount", m.Mount(tmpfs("/a")), nil)
	m.SetBusy("/a", true)
	expect(t, "Unmount", m.Unmount("/a", false), fake.ErrBusy)
	expect(t, "lazy Unmount", m.Unmount("/a", true), nil)
	expect(t, "lazy Unmount again", m.Unmount("/a", true), hal.ErrNotMounted)
}

func mountLoop(t T) {
	m := &fake.Mounts{}
	m.AddFile("/boot/A/system.squashfs", "squashfs")
	device, release, err := m.AttachLoop("/boot/A/system.squashfs")
	expect(t, "AttachLoop", err, nil)
	if err != nil {
		return
	}
	mount := hal.Mount{Source: device, Target: "/system", FSType: "squashfs"}
	expect(t, "Mount for writing", m.Mount(mount), fake.ErrReadOnly)
	mount.Flags = hal.ReadOnly
	expect(t, "Mount", m.Mount(mount), nil)
	release()
	check(t, slices.Contains(m.Devices(), device), "the device stays while it is mounted")
	expect(t, "Unmount", m.Unmount("/system", false), nil)
	check(t, !slices.Contains(m.Devices(), device), "the device goes with its last user")
	_, _, err = m.AttachLoop("/boot/B/system.squashfs")
	expect(t, "AttachLoop of no file", err, hal.ErrNotFound)
}
