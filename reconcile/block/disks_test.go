package block

import (
	"testing"
	"time"

	"machined/hal"
	"machined/hal/fake"
)

func newBlocks(r *rig) *fake.BlockDevices { return &fake.BlockDevices{Mounts: r.mounts} }

// TestLateDisk: a USB disk appears minutes after the boot.
func TestLateDisk(t *testing.T) {
	r := newRig(t)
	r.configure(Settings{Disk: "/dev/sda"})
	r.run(5 * time.Minute)
	r.expect(State, Waiting, "", "waiting for /dev/sda")
	r.plug("sda", empty())
	r.run(10 * time.Second)
	r.expectReady("/dev/sda1", "/dev/sda2")
}

// TestPulledOutAndBack: its file systems are of no use any more, and their places
// are needed when it comes back.
func TestPulledOutAndBack(t *testing.T) {
	r := newRig(t)
	r.plug("sda", empty())
	r.configure(Settings{Disk: "/dev/sda"})
	r.run(time.Minute)
	state := r.uuid("sda1")
	back := r.unplug("sda")
	r.run(time.Minute)
	r.expect(State, Waiting, "", "waiting for /dev/sda")
	r.expectMount(stateTarget, "")
	r.expectMount(ephemeralTarget, "")
	back("sda")
	r.run(10 * time.Second)
	r.expectReady("/dev/sda1", "/dev/sda2")
	r.expectCalls(1)
	if got := r.uuid("sda1"); got != state {
		t.Errorf("STATE was %s and is %s", state, got)
	}
}

// TestPulledOutWhileMounting: the mount of a disk that is gone ended without
// anybody to ask for it, and the disk that came instead was never mounted: its
// volumes were Mounting for ever.
func TestPulledOutWhileMounting(t *testing.T) {
	r := newRig(t)
	r.configure(Settings{Selector: &Selector{Model: "Stick"}})
	stick := func(d *hal.BlockDevice) { d.Model = "Stick" }
	r.plug("sda", with(gpt(), stick), gptVolume(1, State), gptVolume(2, Ephemeral))
	r.run(time.Second)
	r.expect(State, Mounting, "/dev/sda1", "")
	r.unplug("sda")
	r.plug("sdb", with(gpt(), stick), gptVolume(1, State), gptVolume(2, Ephemeral))
	r.run(time.Minute)
	r.expectReady("/dev/sdb1", "/dev/sdb2")
}

// TestAnotherDiskMeanwhile: what was said of one disk is not taken for another.
func TestAnotherDiskMeanwhile(t *testing.T) {
	r := newRig(t)
	r.plug("sda", empty())
	r.plug("sdb", empty())
	r.configure(Settings{Disk: "/dev/sda"})
	r.run(time.Second)
	r.configure(Settings{Disk: "/dev/sdb"})
	r.run(0)
	r.expect(State, Provisioning, "", "on /dev/sda") // which is still under way
	r.run(10 * time.Second)
	r.expectReady("/dev/sdb1", "/dev/sdb2")
}

// TestBootDiskComesBackByAnotherName: a USB disk that comes loose for a moment
// does so, since its old name is still in use. Consent to wipe what the config
// describes must not destroy it then, and its volumes must be found.
func TestBootDiskComesBackByAnotherName(t *testing.T) {
	r := newRig(t)
	r.plug("mmcblk0", mbr(), mbrBoot(), part(2, "", "07", "ntfs", ""))
	r.configure(Settings{Selector: &Selector{Serial: "S-mmcblk0"}, Wipe: true})
	r.run(time.Minute)
	back := r.unplug("mmcblk0")
	r.run(time.Minute)
	back("mmcblk1")
	r.run(time.Hour)
	r.expect(State, Refused, "", "never wiped")
	r.expectCalls(0)

	r = newRig(t)
	r.run(time.Minute)
	back = r.unplug("mmcblk0")
	r.run(time.Minute)
	r.expect(State, Waiting, "", "waiting for the boot disk mmcblk0")
	back("mmcblk1")
	r.run(time.Minute)
	r.expectReady("/dev/mmcblk1p2", "/dev/mmcblk1p3")
}

// TestAnotherDiskByItsName: what is plugged in while the boot disk is away gets
// its name, and is not taken for it.
func TestAnotherDiskByItsName(t *testing.T) {
	r := newRig(t)
	r.run(time.Minute)
	r.unplug("mmcblk0")
	r.run(time.Minute)
	r.plug("mmcblk0", with(mbr(), func(d *hal.BlockDevice) { d.Model = "camera" }), part(1, "", "0c", "vfat", "DCIM"))
	r.run(time.Hour)
	r.expect(State, Waiting, "", "waiting for the boot disk mmcblk0")
	r.expectCalls(1)
	if len(r.blocks.Devices()) != 2 {
		t.Errorf("there are the devices %+v; want the card of the camera as it was", r.blocks.Devices())
	}
}

// TestNoBootDisk: a node that was booted from the network needs a disk named.
func TestNoBootDisk(t *testing.T) {
	r := newRig(t)
	r.bootDisk = ""
	r.start()
	r.run(time.Minute)
	r.expect(State, Refused, "", "install.disk names none")
	r.plug("sda", empty())
	r.configure(Settings{Disk: "/dev/sda"})
	r.run(time.Minute)
	r.expectReady("/dev/sda1", "/dev/sda2")
}

func TestSelector(t *testing.T) {
	d := hal.BlockDevice{Model: "Samsung SSD 870", Serial: "S5Y1", Bus: "ata", Size: 500 << 30}
	for _, c := range []struct {
		selector Selector
		want     bool
	}{
		{Selector{}, true},
		{Selector{Bus: "ata"}, true},
		{Selector{Bus: "usb"}, false},
		{Selector{MinSize: 500 << 30, MaxSize: 500 << 30}, true},
		{Selector{MinSize: 500<<30 + 1}, false},
		{Selector{MaxSize: 500<<30 - 1}, false},
		{Selector{Model: "Samsung SSD 870"}, true},
		{Selector{Model: "Samsung"}, false},
		{Selector{Model: "Samsung*"}, true},
		{Selector{Model: "*870"}, true},
		{Selector{Model: "*SSD*"}, true},
		{Selector{Model: "S*S*0"}, true},
		{Selector{Model: "*"}, true},
		{Selector{Model: "*NVMe*"}, false},
		{Selector{Model: "*SSD"}, false},
		{Selector{Model: "Samsung*Samsung*"}, false},
		{Selector{Serial: "S5Y1"}, true},
		{Selector{Serial: "S5Y1*S5Y1"}, false},
		{Selector{Bus: "ata", Serial: "other"}, false},
	} {
		if got := c.selector.Matches(d); got != c.want {
			t.Errorf("%+v matches: %v; want %v", c.selector, got, c.want)
		}
	}
}

// TestSeveralMatch: a guess could destroy the wrong disk.
func TestSeveralMatch(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"sda", "sdb"} {
		r.plug(name, with(empty(), func(d *hal.BlockDevice) { d.Model = "Twin" }))
	}
	r.configure(Settings{Selector: &Selector{Model: "Twin"}, Wipe: true})
	r.run(time.Minute)
	r.expect(State, Refused, "", "install.disk matches several disks: /dev/sda Twin, /dev/sdb Twin")
	r.expectCalls(0)
	r.configure(Settings{Selector: &Selector{Serial: "S-sdb"}})
	r.run(time.Minute)
	r.expectReady("/dev/sdb1", "/dev/sdb2")
	r.configure(Settings{Selector: &Selector{Serial: "S-sdc"}})
	r.run(time.Minute)
	r.expect(State, Waiting, "", "waiting for a disk that install.disk matches")
}
