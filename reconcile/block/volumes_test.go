package block

import (
	"errors"
	"testing"
	"time"

	"machined/hal"
	"machined/reconcile/resource"
)

// TestFirstBoot makes both volumes on the card that the node booted from, and
// mounts them as what they are for.
func TestFirstBoot(t *testing.T) {
	r := newRig(t)
	r.run(0)
	r.expect(State, Provisioning, "", "on /dev/mmcblk0")
	r.expect(Ephemeral, Provisioning, "", "on /dev/mmcblk0")
	r.run(time.Minute)
	r.expectReady("/dev/mmcblk0p2", "/dev/mmcblk0p3")
	r.expectCalls(1)
	if got, want := r.mounts.Flags(stateTarget), hal.NoSuid|hal.NoDev|hal.NoExec; got != want {
		t.Errorf("STATE is mounted with the flags %b; want %b", got, want)
	}
	if got, want := r.mounts.Flags(ephemeralTarget), hal.NoSuid|hal.NoDev; got != want {
		t.Errorf("EPHEMERAL is mounted with the flags %b; want %b: containers' programs are on it", got, want)
	}
	if got := r.disks.Ext4Size(stateTarget); got != 16*mib {
		t.Errorf("the file system of STATE has %d bytes; want it to fill its partition", got)
	}
}

// TestLaterBoots mounts what is there, and makes nothing.
func TestLaterBoots(t *testing.T) {
	r := newRig(t)
	r.run(time.Minute)
	state := r.uuid("mmcblk0p2")
	for range 3 {
		r.reboot()
		r.run(time.Minute)
		r.expectReady("/dev/mmcblk0p2", "/dev/mmcblk0p3")
	}
	r.expectCalls(1)
	if got := r.uuid("mmcblk0p2"); got != state {
		t.Errorf("STATE is %s after boots; want it to stay %s", got, state)
	}
}

// TestRest: with both volumes in use nothing moves, and nothing is tried.
func TestRest(t *testing.T) {
	r := newRig(t)
	r.run(time.Minute)
	moves, jobs := r.moves(), r.jobs.Started()
	r.run(time.Hour)
	if r.moves() != moves || r.jobs.Started() != jobs {
		t.Errorf("in an hour of rest: %d changes and %d jobs; want none", r.moves()-moves, r.jobs.Started()-jobs)
	}
	// Also of a disk that is refused, and of one that is waited for.
	for _, s := range []Settings{{Disk: "/dev/sdb"}, {Disk: "/dev/sda"}} {
		r = newRig(t)
		r.plug("sda", gpt(), part(1, "data", dataType, "ntfs", ""))
		r.configure(s)
		r.run(time.Minute)
		moves = r.moves()
		r.run(time.Hour)
		if r.moves() != moves {
			t.Errorf("in an hour of rest with %s: %d changes; want none", s.Disk, r.moves()-moves)
		}
	}
}

// TestBeforeTheFirstScan: no disk is missed while nobody has looked.
func TestBeforeTheFirstScan(t *testing.T) {
	r := newRig(t)
	*r.blocks = *newBlocks(r)
	r.run(0)
	r.expect(State, Waiting, "", "looking for disks")
	r.blocks.Scan()
	r.run(0)
	r.expect(State, Waiting, "", "waiting for the boot disk mmcblk0")
}

// TestBootMountedState: stage 2 mounts a STATE that it finds, before there are
// controllers. It is not mounted again.
func TestBootMountedState(t *testing.T) {
	r := newRig(t)
	r.plug("mmcblk0", mbr(), mbrBoot(), mbrVolume(2, State), mbrVolume(3, Ephemeral))
	mount := hal.Mount{Source: "/dev/mmcblk0p2", Target: stateTarget, FSType: "ext4", Flags: hal.NoSuid | hal.NoDev | hal.NoExec}
	if err := r.mounts.Mount(mount); err != nil {
		t.Fatal(err)
	}
	r.run(0)
	r.expect(State, Ready, "/dev/mmcblk0p2", "")
	r.expect(Ephemeral, Mounting, "/dev/mmcblk0p3", "")
	r.run(time.Minute)
	r.expectReady("/dev/mmcblk0p2", "/dev/mmcblk0p3")
	if all, _ := r.mounts.List(); len(all) != 2 {
		t.Errorf("there are the mounts %v; want two", all)
	}
}

// TestAnotherIsMountedThere: STATE of the card is in use, and the config names
// another disk. Nothing is taken away under those who use it.
func TestAnotherIsMountedThere(t *testing.T) {
	r := newRig(t)
	r.plug("sda", gpt(), gptVolume(1, State), gptVolume(2, Ephemeral))
	r.run(time.Minute)
	r.configure(Settings{Disk: "/dev/sda"})
	r.run(time.Minute)
	r.expect(State, Failed, "/dev/sda1", "/dev/mmcblk0p2 is mounted in its place")
	r.expect(Ephemeral, Failed, "/dev/sda2", "/dev/mmcblk0p3 is mounted in its place")
	r.reboot()
	r.run(time.Minute)
	r.expectReady("/dev/sda1", "/dev/sda2")
}

// TestNotYetAndNever: a node that runs from memory makes volumes once the slot's
// program has taken over, and one whose slot has nothing to make them of never.
func TestNotYetAndNever(t *testing.T) {
	r := newRig(t)
	r.why, r.later = "the slot's system is not in use", true
	r.run(time.Minute)
	r.expect(State, Waiting, "", "the slot's system is not in use")
	r.expectCalls(0)
	r.why, r.later = "", false
	r.start()
	r.run(time.Minute)
	r.expectReady("/dev/mmcblk0p2", "/dev/mmcblk0p3")

	r = newRig(t)
	r.why = "there are no templates"
	r.run(time.Minute)
	r.expect(Ephemeral, Failed, "", "there are no templates")
	r.expectCalls(0)
}

// TestMountFailsAndHeals: what is wrong with one volume does not touch the
// other, is shown, and is tried again until it is gone.
func TestMountFailsAndHeals(t *testing.T) {
	r := newRig(t)
	r.run(time.Minute)
	r.unmountAll()
	r.plug("mmcblk0", mbr(), mbrBoot(), mbrVolume(2, State), with(mbrVolume(3, Ephemeral), readOnly))
	r.reboot()
	r.run(10 * time.Minute)
	r.expect(State, Ready, "/dev/mmcblk0p2", "")
	r.expect(Ephemeral, Failed, "/dev/mmcblk0p3", "permission denied")
	if got := r.lastError("volumes"); got != "permission denied" {
		t.Errorf("the controller's error is %q; want that of the mount", got)
	}
	r.plug("mmcblk0", mbr(), mbrBoot(), mbrVolume(2, State), mbrVolume(3, Ephemeral))
	r.run(3 * time.Second)
	r.expectReady("/dev/mmcblk0p2", "/dev/mmcblk0p3")
	if got := r.lastError("volumes"); got != "" {
		t.Errorf("the controller's error is still %q", got)
	}
}

// TestGrowFails: a volume that keeps its old size is of use.
func TestGrowFails(t *testing.T) {
	r := newRig(t)
	r.disks.Fail("GrowExt4", 1, hal.ErrNoSpace)
	r.run(time.Minute)
	both := [2]resource.VolumeStatus{r.volume(State), r.volume(Ephemeral)}
	grown := 0
	for _, v := range both {
		if v.Phase != Ready {
			t.Errorf("%s is %s (%s); want %s", v.Name, v.Phase, v.Message, Ready)
		}
		if v.Message == "" {
			grown++
		}
	}
	if grown != 1 {
		t.Errorf("the volumes are %+v; want the message on one of them", both)
	}
}

// TestMountsCannotBeListed: what was known is not taken back by a look that
// fails.
func TestMountsCannotBeListed(t *testing.T) {
	r := newRig(t)
	r.run(time.Minute)
	r.mounts.FailAlways("List", errors.New("input/output error"))
	r.run(2 * time.Minute)
	r.expect(State, Ready, "/dev/mmcblk0p2", "")
	if r.lastError("volumes") == "" || r.lastError("mounts") == "" {
		t.Error("the controllers have no error, and cannot have seen the mounts")
	}
	r.mounts.Heal("List")
	r.run(time.Minute)
	r.expectReady("/dev/mmcblk0p2", "/dev/mmcblk0p3")
}

// TestUnmountedBehind: what somebody unmounts is mounted again at the next look.
func TestUnmountedBehind(t *testing.T) {
	r := newRig(t)
	r.run(time.Minute)
	if err := r.mounts.Unmount(ephemeralTarget, true); err != nil {
		t.Fatal(err)
	}
	r.run(lookEvery + 5*time.Second)
	r.expectReady("/dev/mmcblk0p2", "/dev/mmcblk0p3")
}
