package conformance

import (
	"slices"
	"testing"

	"machined/hal"
)

// ProvisionerRig is a driver, and disks for it.
type ProvisionerRig struct {
	Provisioner hal.Provisioner
	// NewDisk makes a disk of size bytes and returns its path.
	NewDisk func(t *testing.T, kind DiskKind, size int64) string
	// Found returns the disk and its partitions as a scan finds them.
	Found func(t *testing.T, path string) []hal.BlockDevice
}

func stateAndEphemeral() []hal.NewVolume {
	return []hal.NewVolume{{Label: "STATE", Size: 16 * mib}, {Label: "EPHEMERAL"}}
}

// place is where a volume is to be found.
type place struct {
	label       string
	number      int
	start, size int64 // MiB
}

// Provisioner checks a driver.
func Provisioner(t *testing.T, newRig func(t *testing.T) ProvisionerRig) {
	t.Run("makes", func(t *testing.T) { provisions(t, newRig) })
	t.Run("refuses", func(t *testing.T) { refuses(t, newRig) })
	t.Run("one after the other", func(t *testing.T) {
		r := newRig(t)
		disk := r.NewDisk(t, ImageMBR, 64*mib)
		must(t, "Provision(STATE)", r.Provisioner.Provision(hal.Provision{Disk: disk, Volumes: stateAndEphemeral()[:1]}))
		before := volumes(t, r, disk)
		must(t, "Provision(both)", r.Provisioner.Provision(hal.Provision{Disk: disk, Volumes: stateAndEphemeral()}))
		after := volumes(t, r, disk)
		if len(before) != 1 || len(after) != 2 || after[0] != before[0] {
			t.Errorf("there was %+v and is %+v; want STATE as it was, and EPHEMERAL", before, after)
		}
	})
	t.Run("erases", func(t *testing.T) { erases(t, newRig(t)) })
	t.Run("installs", func(t *testing.T) { installs(t, newRig) })
	t.Run("no disk", func(t *testing.T) {
		r := newRig(t)
		expect(t, "Provision of no disk", r.Provisioner.Provision(hal.Provision{Disk: "/dev/no-such-disk", Wipe: true}), hal.ErrNoDevice)
	})
}

// volumes returns the partitions that are named after volumes, or hold them.
func volumes(t *testing.T, r ProvisionerRig, disk string) []hal.BlockDevice {
	t.Helper()
	return volumesOf(r.Found(t, disk))
}

func volumesOf(found []hal.BlockDevice) []hal.BlockDevice {
	return slices.DeleteFunc(slices.Clone(found), func(d hal.BlockDevice) bool {
		return d.Number == 0 || d.FSLabel != "STATE" && d.FSLabel != "EPHEMERAL"
	})
}

func provisions(t *testing.T, newRig func(t *testing.T) ProvisionerRig) {
	for _, c := range []struct {
		name string
		kind DiskKind
		wipe bool
		want []place
	}{
		{"blank", BlankDisk, false, []place{{"STATE", 1, 1, 16}, {"EPHEMERAL", 2, 17, 46}}},
		{"GPT", ImageGPT, false, []place{{"STATE", 2, 5, 16}, {"EPHEMERAL", 3, 21, 42}}},
		{"MBR", ImageMBR, false, []place{{"STATE", 2, 5, 16}, {"EPHEMERAL", 3, 21, 43}}},
		{"blank STATE", BlankState, false, []place{{"STATE", 2, 5, 25}, {"EPHEMERAL", 3, 30, 33}}},
		{"unknown, to be wiped", Unknown, true, []place{{"STATE", 1, 1, 16}, {"EPHEMERAL", 2, 17, 46}}},
		{"damaged, to be wiped", DamagedGPT, true, []place{{"STATE", 1, 1, 16}, {"EPHEMERAL", 2, 17, 46}}},
		{"MBR, to be wiped", ImageMBR, true, []place{{"STATE", 1, 1, 16}, {"EPHEMERAL", 2, 17, 46}}},
		{"two STATEs, to be wiped", TwoStates, true, []place{{"STATE", 1, 1, 16}, {"EPHEMERAL", 2, 17, 46}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			disk := r.NewDisk(t, c.kind, 64*mib)
			must(t, "Provision", r.Provisioner.Provision(hal.Provision{Disk: disk, Wipe: c.wipe, Volumes: stateAndEphemeral()}))
			made := volumes(t, r, disk)
			var got []place
			ids := make(map[string]bool)
			for _, d := range made {
				got = append(got, place{d.FSLabel, d.Number, d.Start / mib, d.Size / mib})
				ids[d.FSUUID] = true
				if d.FS != "ext4" || d.Blank || r.Found(t, disk)[0].Table == hal.GPT && d.Label != d.FSLabel {
					t.Errorf("%+v was made; want an ext4 in a partition of the same name", d)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the volumes are %+v; want %+v", got, c.want)
			}
			if len(ids) != 2 || ids[""] {
				t.Errorf("the volumes have the UUIDs %v; want two", ids)
			}
			must(t, "Provision again", r.Provisioner.Provision(hal.Provision{Disk: disk, Volumes: stateAndEphemeral()}))
			if again := volumes(t, r, disk); !slices.Equal(again, made) {
				t.Errorf("after Provision again the volumes are %+v; want them left alone, %+v", again, made)
			}
		})
	}
}

func refuses(t *testing.T, newRig func(t *testing.T) ProvisionerRig) {
	both := stateAndEphemeral()
	for _, c := range []struct {
		name    string
		kind    DiskKind
		size    int64
		request hal.Provision
		want    error
	}{
		{"unknown", Unknown, 64 * mib, hal.Provision{Volumes: both}, hal.ErrInvalid},
		{"damaged", DamagedGPT, 64 * mib, hal.Provision{Volumes: both}, hal.ErrInvalid},
		{"an ext4 on the whole disk", WholeDisk, 64 * mib, hal.Provision{Volumes: both}, hal.ErrInvalid},
		{"two STATEs", TwoStates, 64 * mib, hal.Provision{Volumes: both}, hal.ErrInvalid},
		{"something in STATE's place", ForeignState, 64 * mib, hal.Provision{Volumes: both}, hal.ErrInvalid},
		{"GPT, no room", ImageGPT, 37 * mib, hal.Provision{Volumes: both}, hal.ErrNoSpace},
		{"MBR, no room", ImageMBR, 36 * mib, hal.Provision{Volumes: both}, hal.ErrNoSpace},
		{"blank, no room", BlankDisk, 33 * mib, hal.Provision{Volumes: both}, hal.ErrNoSpace},
		{"to be wiped, no room", Unknown, 33 * mib, hal.Provision{Wipe: true, Volumes: both}, hal.ErrNoSpace},
		{"too large", ImageGPT, 64 * mib, hal.Provision{Volumes: []hal.NewVolume{{Label: "STATE", Size: 1 << 62}}}, hal.ErrNoSpace},
		{"too small", ImageGPT, 64 * mib, hal.Provision{Volumes: []hal.NewVolume{{Label: "STATE", Size: mib}}}, hal.ErrInvalid},
		{"no label", ImageGPT, 64 * mib, hal.Provision{Volumes: []hal.NewVolume{{}}}, hal.ErrInvalid},
		{"same label twice", ImageGPT, 64 * mib, hal.Provision{Volumes: []hal.NewVolume{both[0], both[0]}}, hal.ErrInvalid},
		{"the rest is not last", ImageGPT, 64 * mib, hal.Provision{Volumes: []hal.NewVolume{both[1], both[0]}}, hal.ErrInvalid},
		{"no place in an MBR", ImageMBR, 64 * mib, hal.Provision{Volumes: []hal.NewVolume{{Label: "DATA"}}}, hal.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			c.request.Disk = r.NewDisk(t, c.kind, c.size)
			before := slices.Clone(r.Found(t, c.request.Disk))
			expect(t, "Provision", r.Provisioner.Provision(c.request), c.want)
			if after := r.Found(t, c.request.Disk); !slices.Equal(after, before) {
				t.Errorf("the disk holds %+v; want it left alone, %+v", after, before)
			}
		})
	}
}

// erases makes one volume blank, and then anew, and leaves all else alone.
func erases(t *testing.T, r ProvisionerRig) {
	for _, kind := range []DiskKind{ImageMBR, ImageGPT} {
		disk := r.NewDisk(t, kind, 64*mib)
		pieces := 0
		moved := func() { pieces++ }
		must(t, "Erase of a volume that is not there", r.Provisioner.Erase(disk, hal.StateVolume, moved))
		must(t, "Provision", r.Provisioner.Provision(hal.Provision{Disk: disk, Volumes: stateAndEphemeral()}))
		before := r.Found(t, disk)
		must(t, "Erase(STATE)", r.Provisioner.Erase(disk, hal.StateVolume, moved))
		if pieces == 0 {
			t.Error("Erase(STATE) did not say that it moves on")
		}
		after := r.Found(t, disk)
		for i, d := range after {
			was := before[i]
			if was.FSLabel == "STATE" {
				was.FS, was.FSLabel, was.FSUUID, was.Blank = "", "", "", true
			}
			if d != was {
				t.Errorf("after Erase(STATE) there is %+v; want %+v", d, was)
			}
		}
		must(t, "Provision again", r.Provisioner.Provision(hal.Provision{Disk: disk, Volumes: stateAndEphemeral()}))
		again := volumes(t, r, disk)
		if len(again) != 2 || again[0].FSLabel != "STATE" || again[1] != volumesOf(before)[1] {
			t.Errorf("made anew there is %+v; want STATE, and EPHEMERAL as it was", again)
		}
		expect(t, "Erase of no volume", r.Provisioner.Erase(disk, 0, moved), hal.ErrInvalid)
		expect(t, "Erase of another volume", r.Provisioner.Erase(disk, 3, moved), hal.ErrInvalid)
	}
	expect(t, "Erase on no disk", r.Provisioner.Erase("/dev/no-such-disk", hal.StateVolume, func() {}), hal.ErrNoDevice)
}
