package block

import (
	"errors"
	"testing"
	"time"

	"machined/hal"
)

const inRAM = "in RAM: its content is gone after a restart"

// newNetbooted returns a node that was booted from no disk, one second after the
// start of its kernel, and before it has run.
func newNetbooted(t *testing.T) *rig {
	r := newRig(t)
	r.blocks.Remove("mmcblk0")
	r.bootDisk, r.inRAM = "", true
	r.start()
	return r
}

func (r *rig) expectRAM() {
	r.t.Helper()
	r.expect(State, Ready, "tmpfs", inRAM)
	r.expect(Ephemeral, Ready, "tmpfs", inRAM)
	r.expectMount(stateTarget, "tmpfs")
	r.expectMount(ephemeralTarget, "tmpfs")
	r.expectCalls(0)
}

// TestRAM has volumes in RAM where no disk has a STATE, and leaves all disks alone.
func TestRAM(t *testing.T) {
	for name, plug := range map[string]func(r *rig){
		"no disk":         func(*rig) {},
		"a blank disk":    func(r *rig) { r.plug("vda", empty()) },
		"a foreign disk":  func(r *rig) { r.plug("vda", gpt(), part(1, "photos", "", "ext4", "photos")) },
		"a label alone":   func(r *rig) { r.plug("vda", gpt(), part(1, "STATE", "", "", "")) },
		"an MBR's second": func(r *rig) { r.plug("vda", mbr(), part(2, "", mbrLinux, "ext4", "root")) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newNetbooted(t)
			plug(r)
			r.run(0)
			r.expect(State, Waiting, "", "looking for a disk with a STATE")
			r.run(ramWait + 5*time.Second)
			r.expectRAM()
			moves, jobs := r.moves(), r.jobs.Started()
			r.run(time.Hour)
			if r.moves() != moves || r.jobs.Started() != jobs {
				t.Errorf("in an hour of rest: %d changes and %d jobs; want none", r.moves()-moves, r.jobs.Started()-jobs)
			}
			if got, want := r.mounts.Flags(stateTarget), hal.NoSuid|hal.NoDev|hal.NoExec; got != want {
				t.Errorf("STATE is mounted with the flags %b; want %b", got, want)
			}
			// What is in use stays so.
			r.plug("vdb", gpt(), efi(), gptVolume(2, State), gptVolume(3, Ephemeral))
			r.run(time.Minute)
			r.expectRAM()
		})
	}
}

// TestNetbootedWithState uses the volumes of a disk, of either kind of table, also
// when it appears late, and completes what is missing.
func TestNetbootedWithState(t *testing.T) {
	boot := with(mbrBoot(), func(d *hal.BlockDevice) { d.FSLabel = bootLabel })
	for _, c := range []struct {
		name  string
		disk  hal.BlockDevice
		parts []hal.BlockDevice
		calls int
	}{
		{"GPT", gpt(), []hal.BlockDevice{efi(), gptVolume(2, State), gptVolume(3, Ephemeral)}, 0},
		{"MBR", mbr(), []hal.BlockDevice{boot, mbrVolume(2, State), mbrVolume(3, Ephemeral)}, 0},
		{"STATE alone", gpt(), []hal.BlockDevice{efi(), gptVolume(2, State)}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newNetbooted(t)
			r.plug("vda", gpt(), part(1, "photos", "", "ext4", "photos"))
			r.run(2 * time.Second)
			r.plug("vdb", c.disk, c.parts...)
			r.run(time.Minute)
			r.expectReady("/dev/vdb2", "/dev/vdb3")
			r.expectCalls(c.calls)
			back := r.unplug("vdb")
			r.run(time.Minute)
			r.expect(State, Waiting, "", "waiting for the disk with STATE")
			back("vdc")
			r.run(time.Minute)
			r.expectReady("/dev/vdc2", "/dev/vdc3")
		})
	}
}

// TestNetbootedWithTwo does not guess.
func TestNetbootedWithTwo(t *testing.T) {
	r := newNetbooted(t)
	r.plug("vda", gpt(), efi(), gptVolume(2, State), gptVolume(3, Ephemeral))
	r.plug("vdb", gpt(), efi(), gptVolume(2, State), gptVolume(3, Ephemeral))
	r.run(time.Minute)
	r.expect(State, Refused, "", "several disks have a STATE: /dev/vda, /dev/vdb; name one in install.disk")
	r.configure(Settings{Disk: "/dev/vdb"})
	r.run(time.Minute)
	r.expectReady("/dev/vdb2", "/dev/vdb3")
}

// TestNetbootedInstallDisk makes volumes where a config asks for them from the
// start.
func TestNetbootedInstallDisk(t *testing.T) {
	r := newNetbooted(t)
	r.plug("vda", empty())
	r.configure(Settings{Disk: "/dev/vda"})
	r.run(time.Minute)
	r.expect(State, Ready, "/dev/vda1", "")
	r.expectCalls(1)
}

// TestRAMRetries mounts again what could not be mounted.
func TestRAMRetries(t *testing.T) {
	r := newNetbooted(t)
	r.mounts.Fail("Mount", 1, errors.New("no memory"))
	r.run(ramWait + 1500*time.Millisecond)
	r.expect(Ephemeral, Ready, "tmpfs", inRAM)
	if v := r.volume(State); v.Phase != Failed || !has(v.Message, "no memory") {
		t.Errorf("STATE is %s (%s); want it failed", v.Phase, v.Message)
	}
	r.run(time.Minute)
	r.expectRAM()
}
