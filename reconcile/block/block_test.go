package block

import (
	"slices"
	"testing"
	"time"

	"machined/hal"
	"machined/reconcile/resource"
)

// TestDiscover publishes what is there, and takes back what is gone.
func TestDiscover(t *testing.T) {
	r := newRig(t)
	r.why = "never" // nothing is made
	r.plug("sda", with(empty(), func(d *hal.BlockDevice) { d.Blank, d.FS, d.FSLabel, d.Model, d.Bus = false, "xfs", "data", "M", "usb" }))
	r.plug("sdb", with(gpt(), unreadable))
	r.run(time.Minute)
	disks := r.store.Disks.List(nil)
	want := []resource.DiskStatus{
		{Name: "mmcblk0", Path: "/dev/mmcblk0", SizeBytes: 1024 * mib, Serial: "S-mmcblk0", Table: "mbr"},
		{Name: "sda", Path: "/dev/sda", SizeBytes: 1024 * mib, Model: "M", Serial: "S-sda", Bus: "usb"},
		{Name: "sdb", Path: "/dev/sdb", SizeBytes: 1024 * mib, Serial: "S-sdb", Trouble: "it does not answer"},
	}
	if !slices.Equal(disks, want) {
		t.Errorf("the disks are\n%+v; want\n%+v", disks, want)
	}
	volumes := r.store.Discovered.List(nil)
	if want := []resource.DiscoveredVolume{
		{Device: "/dev/mmcblk0p1", Disk: "mmcblk0", FSType: "vfat", FSLabel: "BOOT", UUID: "mmcblk0-1", PartitionLabel: "", SizeBytes: 64 * mib},
		{Device: "/dev/sda", Disk: "sda", FSType: "xfs", FSLabel: "data", SizeBytes: 1024 * mib},
	}; !slices.Equal(volumes, want) {
		t.Errorf("the volumes are\n%+v; want\n%+v", volumes, want)
	}
	r.unplug("sda")
	r.unplug("mmcblk0")
	r.run(0)
	if r.store.Disks.Len() != 1 || r.store.Discovered.Len() != 0 {
		t.Errorf("with one bare disk left there are %+v and %+v", r.store.Disks.List(nil), r.store.Discovered.List(nil))
	}
}

// mountLines are the statuses as "volume source target mounted".
func (r *rig) mountLines() []string {
	var out []string
	for _, m := range r.store.Mounts.List(nil) {
		line := m.Volume + " " + m.Source + " " + m.Target
		if m.Mounted {
			line += " mounted"
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// TestMounts publishes what is mounted from block devices, and the volumes that
// are not.
func TestMounts(t *testing.T) {
	r := newRig(t)
	r.plug("mmcblk0", mbr(), mbrBoot(), mbrVolume(2, State))
	r.why = "never"
	for _, m := range []hal.Mount{
		{Source: "proc", Target: "/proc", FSType: "proc"}, {Source: "/dev/mmcblk0p1", Target: "/boot", FSType: "vfat"},
		{Source: "/dev/mmcblk0p1", Target: "/newroot", FSType: "vfat"},
	} {
		if err := r.mounts.Mount(m); err != nil {
			t.Fatal(err)
		}
	}
	r.run(time.Minute)
	want := []string{"/boot /dev/mmcblk0p1 /boot mounted", "EPHEMERAL  /var", "STATE /dev/mmcblk0p2 /system/state mounted"}
	if got := r.mountLines(); !slices.Equal(got, want) {
		t.Errorf("the mounts are %q; want %q", got, want)
	}
	if err := r.mounts.Unmount("/boot", false); err != nil {
		t.Fatal(err)
	}
	r.run(mountsEvery + time.Second) // nothing tells of it
	if got := r.mountLines(); !slices.Equal(got, want[1:]) {
		t.Errorf("the mounts are %q; want %q", got, want[1:])
	}
}

// TestMountedOver: of two mounts at one place the later one is seen. Both were
// published in turn, so that the store moved at each look for ever.
func TestMountedOver(t *testing.T) {
	r := newRig(t)
	r.plug("sda", gpt(), gptVolume(1, "data"))
	r.run(time.Minute)
	for _, source := range []string{"/dev/mmcblk0p1", "/dev/sda1"} {
		if err := r.mounts.Mount(hal.Mount{Source: source, Target: "/mnt", FSType: map[bool]string{true: "vfat", false: "ext4"}[source == "/dev/mmcblk0p1"]}); err != nil {
			t.Fatal(err)
		}
	}
	r.run(time.Minute)
	if got, want := r.mountLines()[0], "/mnt /dev/sda1 /mnt mounted"; got != want {
		t.Errorf("the mount is %q; want %q", got, want)
	}
	moves := r.moves()
	r.run(time.Hour)
	if r.moves() != moves {
		t.Errorf("in an hour of rest there were %d changes; want none", r.moves()-moves)
	}
}
