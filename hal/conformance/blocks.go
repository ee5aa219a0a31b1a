package conformance

import (
	"slices"
	"testing"

	"machined/hal"
)

// DiskKind is what is on a disk that a rig is to make.
type DiskKind int

const (
	// BlankDisk was never written to.
	BlankDisk DiskKind = iota
	// ImageGPT and ImageMBR have a boot partition (vfat of the label BOOT,
	// and in a GPT the name EFI) from 1 to 5 MiB, and nothing else.
	ImageGPT
	ImageMBR
	// Unknown is no table, and something that nobody knows.
	Unknown
	// DamagedGPT has a protective MBR, and no copy of the table that is whole.
	DamagedGPT
	// BlankState and ForeignState are ImageGPT with a partition named STATE
	// from 5 to 30 MiB, which is blank, or holds a swap.
	BlankState
	ForeignState
	// TwoStates has two of them, from 5 to 30 and from 30 to 55 MiB.
	TwoStates
	// WholeDisk is an ext4 of the label STATE without a table.
	WholeDisk
)

// BlockDevicesRig is a driver of a machine without disks.
type BlockDevicesRig struct {
	Devices hal.BlockDevices
	// Add plugs in a disk of 64 MiB.
	Add    func(t *testing.T, name string, kind DiskKind)
	Remove func(t *testing.T, name string)
	// Settle waits until the driver has looked.
	Settle func()
}

// BlockDevices checks a driver.
func BlockDevices(t *testing.T, newRig func(t *testing.T) BlockDevicesRig) {
	t.Run("come and go", func(t *testing.T) { comeAndGo(t, newRig(t)) })
	t.Run("content", func(t *testing.T) { diskContent(t, newRig) })
}

func names(devices []hal.BlockDevice) []string {
	var out []string
	for _, d := range devices {
		out = append(out, d.Name)
	}
	return out
}

func comeAndGo(t *testing.T, r BlockDevicesRig) {
	r.Devices.Rescan()
	r.Settle()
	if n := r.Devices.Scans(); n != 1 || len(r.Devices.Devices()) != 0 {
		t.Errorf("after the first scan Scans() = %d with %v; want 1 and no devices", n, names(r.Devices.Devices()))
	}
	step := func(what string, want ...string) []hal.BlockDevice {
		t.Helper()
		before := r.Devices.Scans()
		r.Settle()
		got := r.Devices.Devices()
		if !slices.Equal(names(got), want) {
			t.Fatalf("after %s there are %v; want %v", what, names(got), want)
		}
		r.Devices.Rescan()
		r.Settle()
		if now := r.Devices.Scans(); now < before {
			t.Errorf("after %s Scans() = %d, and %d before", what, now, before)
		}
		now := r.Devices.Scans()
		r.Devices.Rescan()
		r.Settle()
		if again := r.Devices.Scans(); again != now {
			t.Errorf("Rescan() without a change counted: %d, then %d", now, again)
		}
		return got
	}
	count := r.Devices.Scans()
	r.Add(t, "sdb", BlankDisk)
	step("adding sdb", "sdb")
	if now := r.Devices.Scans(); now <= count {
		t.Errorf("Scans() = %d after a disk came, and %d before; want more", now, count)
	}
	r.Add(t, "mmcblk0", ImageMBR)
	step("adding mmcblk0", "mmcblk0", "mmcblk0p1", "sdb")
	r.Add(t, "sda", BlankState)
	held := step("adding sda", "mmcblk0", "mmcblk0p1", "sda", "sda1", "sda2", "sdb")
	r.Remove(t, "sda")
	r.Remove(t, "mmcblk0")
	step("removing two", "sdb")
	if want := []string{"mmcblk0", "mmcblk0p1", "sda", "sda1", "sda2", "sdb"}; !slices.Equal(names(held), want) {
		t.Errorf("the slice of before holds %v; want %v: it is the caller's", names(held), want)
	}
}

// diskContent compares what is found with what was made; not what a real
// disk's hardware or chance says.
func diskContent(t *testing.T, newRig func(t *testing.T) BlockDevicesRig) {
	const size = 64 * mib
	disk := hal.BlockDevice{Name: "vdq", Path: "/dev/vdq", Disk: "vdq", Size: size}
	with := func(d hal.BlockDevice, change func(*hal.BlockDevice)) hal.BlockDevice { change(&d); return d }
	gpt := with(disk, func(d *hal.BlockDevice) { d.Table, d.Unused = hal.GPT, 58*mib })
	boot := hal.BlockDevice{
		Name: "vdq1", Path: "/dev/vdq1", Disk: "vdq", Number: 1, Start: 1 * mib, Size: 4 * mib,
		Label: "EFI", Type: "c12a7328-f81f-11d2-ba4b-00a0c93ec93b", FS: "vfat", FSLabel: "BOOT",
	}
	state := hal.BlockDevice{
		Name: "vdq2", Path: "/dev/vdq2", Disk: "vdq", Number: 2, Start: 5 * mib, Size: 25 * mib,
		Label: "STATE", Type: "0fc63daf-8483-4772-8e79-3d69d8477de4", Blank: true,
	}
	withState := with(gpt, func(d *hal.BlockDevice) { d.Unused = 33 * mib })
	for _, c := range []struct {
		name string
		kind DiskKind
		want []hal.BlockDevice
	}{
		{"blank", BlankDisk, []hal.BlockDevice{with(disk, func(d *hal.BlockDevice) { d.Blank, d.Unused = true, size })}},
		{"unknown", Unknown, []hal.BlockDevice{with(disk, func(d *hal.BlockDevice) { d.Unused = size })}},
		{"whole disk", WholeDisk, []hal.BlockDevice{with(disk, func(d *hal.BlockDevice) { d.Unused, d.FS, d.FSLabel = size, "ext4", "STATE" })}},
		{"GPT", ImageGPT, []hal.BlockDevice{gpt, boot}},
		{"MBR", ImageMBR, []hal.BlockDevice{
			with(disk, func(d *hal.BlockDevice) { d.Table, d.Unused = hal.MBR, 59*mib }),
			with(boot, func(d *hal.BlockDevice) { d.Label, d.Type = "", "0c" }),
		}},
		{"blank STATE", BlankState, []hal.BlockDevice{withState, boot, state}},
		{"foreign STATE", ForeignState, []hal.BlockDevice{
			withState, boot, with(state, func(d *hal.BlockDevice) { d.Blank, d.FS = false, "swap" }),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.Add(t, "vdq", c.kind)
			r.Settle()
			got := slices.Clone(r.Devices.Devices())
			for i := range got {
				got[i].FSUUID, got[i].Path = "", "/dev/"+got[i].Name
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("Devices() =\n%+v; want\n%+v", got, c.want)
			}
		})
	}
	t.Run("damaged", func(t *testing.T) {
		r := newRig(t)
		r.Add(t, "vdq", DamagedGPT)
		r.Settle()
		if got := r.Devices.Devices(); len(got) != 1 || got[0].Table != hal.GPT || got[0].Trouble == "" || got[0].Blank {
			t.Errorf("Devices() = %+v; want a GPT in trouble, and not blank", got)
		}
	})
}
