package volume

import (
	"fmt"
	"io"
	"testing"

	"github.com/diskfs/go-diskfs/partition/gpt"
)

// TestPowerCuts cuts the power at every write of a first boot. What had not
// been synced by then may have reached the disk or not, in any order, and the
// last write may be torn between two sectors. The next boot must end up with
// STATE whole, and the boot partition as it was.
//
// It tells of a node whose STATE was empty for good: a crash between
// partitioning and mkfs left a partition without a file system, which every
// later boot took for a finished one.
func TestPowerCuts(t *testing.T) {
	template := packed(stateContents())
	for _, c := range []struct {
		name  string
		write func(*testing.T, *ramDisk)
	}{
		{"GPT", func(t *testing.T, d *ramDisk) { writeGPT(t, d, d.size) }},
		{"GPT made for a smaller disk", func(t *testing.T, d *ramDisk) { writeGPT(t, d, 8*mib) }},
		{"MBR", func(t *testing.T, d *ramDisk) { writeMBR(t, d) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := newRAMDisk(64 * mib)
			c.write(t, before)
			whole := before.clone()
			want, err := ensure(whole, whole.size, template)
			if err != nil {
				t.Fatal(err)
			}
			for cut := range len(whole.record) + 1 {
				for name, after := range outcomes(before, whole.record[:cut]) {
					t.Run(fmt.Sprintf("cut=%d/%s", cut, name), func(t *testing.T) { bootAfter(t, after, want, template) })
				}
			}
		})
	}
}

// bootAfter boots twice after a power cut.
func bootAfter(t *testing.T, disk *ramDisk, want Extent, template func() (io.ReadCloser, error)) {
	for boot := range 2 {
		got, err := ensure(disk, disk.size, template)
		if err != nil || got != want {
			t.Fatalf("boot %d: ensure = %+v, %v; want %+v", boot, got, err, want)
		}
		checkState(t, disk, got)
	}
	if g, err := gpt.Read(disk, sectorSize, sectorSize); err == nil {
		if g.RecoveredFromBackup {
			t.Error("the primary GPT is still broken after the next boot")
		}
		checkGPT(t, disk, g)
	}
}

func checkGPT(t *testing.T, disk *ramDisk, g *gpt.Table) {
	t.Helper()
	if err := g.Verify(disk, uint64(disk.size)); err != nil {
		t.Errorf("the GPT's backup: %v", err)
	}
	if len(g.Partitions) != 2 || g.Partitions[0].GUID != bootGUID || g.Partitions[0].Start != bootStart/sectorSize {
		t.Errorf("the GPT has %d partitions; want the boot partition and STATE", len(g.Partitions))
	}
}

// outcomes returns what the disk may hold after the operations done, by what
// became of the writes since the last sync.
func outcomes(before *ramDisk, done []op) map[string]*ramDisk {
	synced := 0 // operations that are on the disk for sure
	for i, o := range done {
		if o.data == nil {
			synced = i + 1
		}
	}
	base := before.clone()
	for _, o := range done[:synced] {
		base.apply(o.off, o.data)
	}
	loose := done[synced:]
	out := map[string]*ramDisk{"nothing unsynced": base}
	if len(loose) == 0 {
		return out
	}
	all, last, torn := base.clone(), base.clone(), base.clone()
	for _, o := range loose {
		all.apply(o.off, o.data)
	}
	final := loose[len(loose)-1]
	last.apply(final.off, final.data)
	half := len(final.data) / 2 / sectorSize * sectorSize
	torn.apply(final.off, final.data[:half])
	out["all unsynced"], out["the last write alone"], out["half of the last write"] = all, last, torn
	if len(final.data) > sectorSize {
		tail := base.clone()
		tail.apply(final.off+int64(half), final.data[half:])
		one := base.clone()
		one.apply(final.off, final.data[:sectorSize])
		out["the other half of the last write"], out["one sector of the last write"] = tail, one
	}
	return out
}
