package conformance

import (
	"testing"

	"machined/hal"
)

// DisksRig is a disk of 64 MiB that is in use and has no partition that the
// kernel knows of.
type DisksRig struct {
	Disks hal.Disks
	Disk  string
	// Want is the path of the disk's partition 2.
	Want string
	// Mounted is where an ext4 of 16 MiB is mounted, on a device of 32 MiB.
	Mounted string
	// NoGrow says why no file system can be grown here; empty where it can.
	NoGrow string
	// Size returns the size of that file system in bytes.
	Size func() int64
}

const mib = 1 << 20

// Disks checks a driver.
func Disks(t *testing.T, newRig func(t *testing.T) DisksRig) {
	t.Run("add partition", func(t *testing.T) {
		r := newRig(t)
		for _, when := range []string{"first", "again"} {
			got, err := r.Disks.AddPartition(r.Disk, 2, 8*mib, 16*mib)
			if err != nil || got != r.Want {
				t.Fatalf("AddPartition(2), %s = %q, %v; want %q", when, got, err, r.Want)
			}
		}
		if got, err := r.Disks.AddPartition(r.Disk, 3, 16*mib, 16*mib); err == nil {
			t.Errorf("AddPartition(3) across partition 2 = %q; want an error", got)
		}
		if got, err := r.Disks.AddPartition(r.Disk, 2, 32*mib, 16*mib); err == nil {
			t.Errorf("AddPartition(2) at another place = %q; want an error", got)
		}
	})
	t.Run("remove partition", func(t *testing.T) {
		r := newRig(t)
		for _, start := range []int64{8 * mib, 24 * mib} {
			_, err := r.Disks.AddPartition(r.Disk, 2, start, 16*mib)
			must(t, "AddPartition(2)", err)
			must(t, "RemovePartition(2)", r.Disks.RemovePartition(r.Disk, 2))
		}
		must(t, "RemovePartition(2) again", r.Disks.RemovePartition(r.Disk, 2))
		must(t, "RemovePartition on a disk that is not there", r.Disks.RemovePartition(r.Disk+"-not", 2))
	})
	t.Run("no such disk", func(t *testing.T) {
		r := newRig(t)
		_, err := r.Disks.AddPartition(r.Disk+"-not", 2, 8*mib, 16*mib)
		expect(t, "AddPartition on a disk that is not there", err, hal.ErrNoDevice)
	})
	t.Run("grow ext4", func(t *testing.T) { growExt4(t, newRig(t)) })
}

func growExt4(t *testing.T, r DisksRig) {
	if r.NoGrow != "" {
		t.Skip(r.NoGrow)
	}
	grow := func(size, want int64) {
		t.Helper()
		expect(t, "GrowExt4", r.Disks.GrowExt4(r.Mounted, size), nil)
		if got := r.Size(); got != want {
			t.Errorf("the file system has %d bytes after GrowExt4(%d); want %d", got, size, want)
		}
	}
	grow(16*mib, 16*mib)
	grow(24*mib+512, 24*mib) // rounded down to a block
	grow(32*mib, 32*mib)
	grow(32*mib, 32*mib)
	grow(16*mib, 32*mib) // one that is as large already is left alone
	if err := r.Disks.GrowExt4(r.Mounted, 1<<40); err == nil {
		t.Error("GrowExt4 beyond the device succeeded; want an error")
	}
}
