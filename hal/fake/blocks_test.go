package fake_test

import (
	"errors"
	"strconv"
	"testing"

	"machined/hal"
	"machined/hal/conformance"
	"machined/hal/fake"
)

const mib = 1 << 20

// addDisk plugs in what the suites ask for, as a scan would find it.
func addDisk(b *fake.BlockDevices, name string, kind conformance.DiskKind, size int64) {
	disk := hal.BlockDevice{Name: name, Size: size}
	part := func(number int, from, to int64) hal.BlockDevice {
		return hal.BlockDevice{Disk: name, Number: number, Start: from * mib, Size: (to - from) * mib, Blank: true}
	}
	boot := part(1, 1, 5)
	boot.FS, boot.FSLabel, boot.Blank, boot.Type = "vfat", "BOOT", false, "0c"
	state := part(2, 5, 30)
	state.Label, state.Type = "STATE", "0fc63daf-8483-4772-8e79-3d69d8477de4"
	parts := []hal.BlockDevice{boot}
	switch kind {
	case conformance.BlankDisk:
		disk.Blank, parts = true, nil
	case conformance.Unknown:
		parts = nil
	case conformance.WholeDisk:
		disk.FS, disk.FSLabel, parts = "ext4", "STATE", nil
	case conformance.DamagedGPT:
		disk.Table, disk.Trouble, parts = hal.GPT, "both copies of the GPT are damaged", nil
	case conformance.ImageMBR:
		disk.Table = hal.MBR
	default:
		disk.Table = hal.GPT
		parts[0].Label, parts[0].Type = "EFI", "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
	}
	switch kind {
	case conformance.BlankState:
		parts = append(parts, state)
	case conformance.ForeignState:
		state.FS, state.Blank = "swap", false
		parts = append(parts, state)
	case conformance.TwoStates:
		other := part(3, 30, 55)
		other.Label, other.Type = state.Label, state.Type
		parts = append(parts, state, other)
	}
	b.AddDisk(disk)
	for _, p := range parts {
		b.AddPartition(p)
	}
}

func TestBlockDevices(t *testing.T) {
	conformance.BlockDevices(t, func(*testing.T) conformance.BlockDevicesRig {
		b := &fake.BlockDevices{}
		return conformance.BlockDevicesRig{
			Devices: b, Settle: func() { b.Scan() },
			Add:    func(_ *testing.T, name string, kind conformance.DiskKind) { addDisk(b, name, kind, 64*mib) },
			Remove: func(_ *testing.T, name string) { b.Remove(name) },
		}
	})
}

func TestProvisioner(t *testing.T) {
	conformance.Provisioner(t, func(*testing.T) conformance.ProvisionerRig {
		b, disks := &fake.BlockDevices{}, 0
		return conformance.ProvisionerRig{
			Provisioner: &fake.Provisioner{Blocks: b},
			NewDisk: func(_ *testing.T, kind conformance.DiskKind, size int64) string {
				name := "sd" + strconv.Itoa(disks)
				disks++
				addDisk(b, name, kind, size)
				return "/dev/" + name
			},
			Found: func(_ *testing.T, path string) []hal.BlockDevice {
				var found []hal.BlockDevice
				for _, d := range b.Devices() {
					if "/dev/"+d.Disk == path {
						found = append(found, d)
					}
				}
				return found
			},
		}
	})
}

// TestProvisionedIsMounted mounts what was made, grows it, and cannot wipe it
// meanwhile.
func TestProvisionedIsMounted(t *testing.T) {
	mounts := &fake.Mounts{}
	blocks := &fake.BlockDevices{Mounts: mounts}
	disks := &fake.Disks{Blocks: blocks}
	p := &fake.Provisioner{Blocks: blocks}
	addDisk(blocks, "mmcblk0", conformance.ImageMBR, 64*mib)
	state := hal.Mount{Source: "/dev/mmcblk0p2", Target: "/system/state", FSType: "ext4"}
	if err := mounts.Mount(state); err != hal.ErrNoDevice {
		t.Errorf("Mount before Provision = %v; want %v", err, hal.ErrNoDevice)
	}
	request := hal.Provision{Disk: "/dev/mmcblk0", Volumes: []hal.NewVolume{{Label: "STATE", Size: 16 * mib}, {Label: "EPHEMERAL"}}}
	if err := p.Provision(request); err != nil {
		t.Fatal(err)
	}
	if err := mounts.Mount(state); err != nil {
		t.Errorf("Mount = %v; want success", err)
	}
	if err := disks.GrowExt4("/system/state", 16*mib); err != nil || disks.Ext4Size("/system/state") != 16*mib {
		t.Errorf("GrowExt4 = %v, to %d bytes; want 16 MiB", err, disks.Ext4Size("/system/state"))
	}
	request.Wipe = true
	if err := p.Provision(request); err != fake.ErrBusy {
		t.Errorf("Provision(Wipe) of a disk in use = %v; want %v", err, fake.ErrBusy)
	}
	blocks.Remove("mmcblk0")
	if err := mounts.Mount(hal.Mount{Source: "/dev/mmcblk0p3", Target: "/var", FSType: "ext4"}); err != hal.ErrNoDevice {
		t.Errorf("Mount after the card was pulled = %v; want %v", err, hal.ErrNoDevice)
	}
}

// TestProvisionIsCut cuts a call at each of its steps; the next one finishes.
func TestProvisionIsCut(t *testing.T) {
	cut := errors.New("power cut")
	for _, c := range []struct {
		method string
		nth    int
		made   int
	}{{"Provision", 1, 0}, {"Wipe", 1, 0}, {"Volume", 1, 0}, {"Volume", 2, 1}} {
		blocks := &fake.BlockDevices{}
		p := &fake.Provisioner{Blocks: blocks}
		addDisk(blocks, "sda", conformance.BlankDisk, 64*mib)
		p.Fail(c.method, c.nth, cut)
		request := hal.Provision{Disk: "/dev/sda", Volumes: []hal.NewVolume{{Label: "STATE", Size: 16 * mib}, {Label: "EPHEMERAL"}}}
		if err := p.Provision(request); err != cut || len(blocks.Devices()) != 1+c.made {
			t.Errorf("Provision cut at %s %d = %v with %d devices; want %v with %d", c.method, c.nth, err, len(blocks.Devices()), cut, 1+c.made)
		}
		before := blocks.Devices()
		if err := p.Provision(request); err != nil || len(blocks.Devices()) != 3 {
			t.Errorf("Provision after a cut at %s %d = %v with %d devices; want success with 3", c.method, c.nth, err, len(blocks.Devices()))
		}
		if c.made > 0 && blocks.Devices()[1] != before[1] {
			t.Errorf("after a cut at %s %d STATE is %+v; want it left alone, %+v", c.method, c.nth, blocks.Devices()[1], before[1])
		}
	}
}

// TestAnotherVolumeAtItsPlace: a disk that is mounted where another was has its
// own size.
func TestAnotherVolumeAtItsPlace(t *testing.T) {
	mounts := &fake.Mounts{}
	blocks := &fake.BlockDevices{Mounts: mounts}
	disks := &fake.Disks{Blocks: blocks}
	for i, size := range []int64{16 * mib, 64 * mib} {
		name := "sd" + strconv.Itoa(i)
		blocks.AddDisk(hal.BlockDevice{Name: name, Size: 128 * mib, Table: hal.GPT})
		blocks.AddPartition(hal.BlockDevice{Disk: name, Number: 1, Start: mib, Size: size, FS: "ext4"})
		if err := mounts.Mount(hal.Mount{Source: "/dev/" + name + "p1", Target: "/var", FSType: "ext4"}); err != nil {
			t.Fatal(err)
		}
		if err := disks.GrowExt4("/var", size); err != nil || disks.Ext4Size("/var") != size {
			t.Errorf("GrowExt4 of %s = %v, to %d bytes; want %d", name, err, disks.Ext4Size("/var"), size)
		}
		if err := mounts.Unmount("/var", false); err != nil {
			t.Fatal(err)
		}
	}
}
