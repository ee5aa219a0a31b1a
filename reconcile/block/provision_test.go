package block

import (
	"errors"
	"testing"
	"time"

	"machined/hal"
)

// TestProvisioningFails: it is shown, and tried again, later each time.
func TestProvisioningFails(t *testing.T) {
	r := newRig(t)
	r.provisioner.FailAlways("Provision", hal.ErrNoSpace)
	r.run(2500 * time.Millisecond)
	r.expect(State, Failed, "", "no space left on device")
	if got := r.lastError("volumes"); got != "no space left on device" {
		t.Errorf("the controller's error is %q; want that of the provisioner", got)
	}
	r.run(time.Hour)
	r.provisioner.Heal("Provision")
	r.run(2 * time.Minute)
	r.expectReady("/dev/mmcblk0p2", "/dev/mmcblk0p3")
}

// TestFailuresBackOff: a disk that is too small stays so. The run that started
// the next try had no error itself, so that the loop's pause stayed at a second:
// the disk was read, and the store moved, each second for ever.
func TestFailuresBackOff(t *testing.T) {
	r := newRig(t)
	r.provisioner.FailAlways("Provision", hal.ErrNoSpace)
	r.run(time.Hour)
	if got := r.provisioner.Calls; got > 70 {
		t.Errorf("in an hour it was tried %d times; want once a minute at most", got)
	}
	calls := r.provisioner.Calls
	r.configure(Settings{})
	r.run(3 * time.Second)
	if got := r.provisioner.Calls - calls; got != 1 {
		t.Errorf("after another config it was tried %d times; want once, at once", got)
	}

	r = newRig(t)
	r.run(time.Minute)
	r.unmountAll()
	r.mounts.FailAlways("Mount", hal.ErrInvalid)
	before := r.jobs.Started()
	r.run(time.Hour)
	if got := r.jobs.Started() - before; got > 2*70 {
		t.Errorf("in an hour two mounts were tried %d times; want once a minute each at most", got)
	}
}

// TestCutHalfWay: the power goes after STATE was made. The next boot uses it and
// makes the other.
func TestCutHalfWay(t *testing.T) {
	r := newRig(t)
	r.provisioner.Fail("Volume", 2, errors.New("power cut"))
	r.run(2 * time.Second)
	r.expectCalls(1)
	state := r.uuid("mmcblk0p2")
	r.reboot()
	r.run(0)
	r.expect(State, Mounting, "/dev/mmcblk0p2", "")
	r.expect(Ephemeral, Provisioning, "", "on /dev/mmcblk0")
	r.run(time.Minute)
	r.expectReady("/dev/mmcblk0p2", "/dev/mmcblk0p3")
	r.expectCalls(2)
	if got := r.uuid("mmcblk0p2"); got != state || state == "" {
		t.Errorf("STATE was %q before the cut and is %q; want it to be left alone", state, got)
	}
}

// TestProvisioningHangs: it is shown, and does not hold anything else up.
func TestProvisioningHangs(t *testing.T) {
	r := newRig(t)
	r.plug("mmcblk0", mbr(), mbrBoot(), mbrVolume(2, State))
	r.jobs.Stuck = true
	r.run(0) // the provisioning and the mount of STATE
	r.jobs.Stuck = false
	r.plug("sda", gpt())
	r.run(time.Hour)
	r.expect(Ephemeral, Provisioning, "", "on /dev/mmcblk0")
	if r.store.Disks.Len() != 2 {
		t.Errorf("%d disks are seen; want 2", r.store.Disks.Len())
	}
	if got := r.jobs.Started(); got != 2 {
		t.Errorf("%d jobs were started; want no second try of what has not ended", got)
	}
	r.jobs.Heal()
	r.run(time.Minute)
	r.expectReady("/dev/mmcblk0p2", "/dev/mmcblk0p3")
}

// TestWipe destroys with consent, and once.
func TestWipe(t *testing.T) {
	r := newRig(t)
	r.plug("sda", gpt(), part(1, "Windows", dataType, "ntfs", ""))
	r.configure(Settings{Disk: "/dev/sda"})
	r.run(time.Minute)
	r.expect(State, Refused, "", "/dev/sda is left alone: it holds ntfs")
	r.expectCalls(0)
	r.configure(Settings{Disk: "/dev/sda", Wipe: true})
	r.run(time.Minute)
	r.expectReady("/dev/sda1", "/dev/sda2")
	r.expectCalls(1)
	state := r.uuid("sda1")
	r.reboot()
	r.run(time.Hour)
	r.expectReady("/dev/sda1", "/dev/sda2")
	r.expectCalls(1)
	if got := r.uuid("sda1"); got != state {
		t.Errorf("STATE was %s and is %s; want a second boot to leave it alone", state, got)
	}
}

// TestWipeIsCut: the config still says wipe when the node comes back, and what
// was made by then stays.
func TestWipeIsCut(t *testing.T) {
	for _, c := range []struct {
		method string
		nth    int
	}{{"Provision", 1}, {"Wipe", 1}, {"Volume", 1}, {"Volume", 2}} {
		r := newRig(t)
		r.plug("sda", gpt(), part(1, "Windows", dataType, "ntfs", ""))
		r.provisioner.Fail(c.method, c.nth, errors.New("power cut"))
		r.configure(Settings{Disk: "/dev/sda", Wipe: true})
		r.run(2 * time.Second)
		r.expectCalls(1)
		state := r.uuid("sda1")
		r.reboot()
		r.run(time.Minute)
		r.expectReady("/dev/sda1", "/dev/sda2")
		if got := r.uuid("sda1"); c.nth == 2 && got != state {
			t.Errorf("cut at %s %d: STATE was %s and is %s; want it to be left alone", c.method, c.nth, state, got)
		}
	}
}

// TestNoWipeWhileMounted: consent does not take a disk from under those who use
// it.
func TestNoWipeWhileMounted(t *testing.T) {
	r := newRig(t)
	r.plug("sda", gpt(), part(2, "Windows", dataType, "ntfs", ""))
	if err := r.mounts.Mount(hal.Mount{Source: "/dev/sda2", Target: "/mnt", FSType: "ntfs"}); err != nil {
		t.Fatal(err)
	}
	r.configure(Settings{Disk: "/dev/sda", Wipe: true})
	r.run(10 * time.Minute)
	r.expect(State, Refused, "", "something on it is mounted")
	r.expectCalls(0)
}

// TestNoWipeOfAVolume: consent stays in the config after it was used. A volume
// that is damaged later, or a partition that somebody adds, must not cost the
// node the other volume, with its identity in it.
func TestNoWipeOfAVolume(t *testing.T) {
	r := newRig(t)
	damaged := part(2, Ephemeral, dataType, "", "")
	damaged.Blank = false
	r.plug("sda", gpt(), gptVolume(1, State), damaged)
	r.configure(Settings{Disk: "/dev/sda", Wipe: true})
	r.run(10 * time.Minute)
	r.expect(State, Ready, "/dev/sda1", "")
	r.expect(Ephemeral, Refused, "", "beside a volume of the node")
	r.expectCalls(0)
}

// TestBootDiskIsNeverWiped, whatever names it.
func TestBootDiskIsNeverWiped(t *testing.T) {
	for _, s := range []Settings{{Disk: "/dev/mmcblk0", Wipe: true}, {Selector: &Selector{Serial: "S-mmc*"}, Wipe: true}} {
		r := newRig(t)
		r.plug("mmcblk0", mbr(), mbrBoot(), part(2, "", "07", "ntfs", ""))
		r.configure(s)
		r.run(time.Hour)
		r.expect(State, Refused, "", "never wiped")
		r.expectCalls(0)
	}
}
