package fat

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// step is what an upgrade writes until it waits for the disk, by another FAT
// implementation (mtools).
type step struct {
	name   string
	before *ramDisk
	after  *ramDisk
}

// TestCutUpgrades cuts an upgrade of slot B by mtools. A FAT driver orders
// nothing between two syncs: any of the sectors that a step changes may have
// reached the disk. Slot A stays whole before and after the repair, the repair
// ends clean, and B can be written again.
func TestCutUpgrades(t *testing.T) {
	for name, args := range map[string][]string{"clusters of 512": {"-s", "1"}, "clusters of 1024": {"-s", "2"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, cuts, refused := bootTree(), 0, 0
			slotA := files.slot("A/")
			steps := upgradeSteps(t, 72*mib, files, args...)
			for i, s := range steps {
				if testing.Short() && i%3 != 0 {
					continue
				}
				for seed := range 3 {
					after := cutStep(t, s, uint64(seed))
					at := fmt.Sprintf("%s, seed %d", s.name, seed)
					checkTree(t, after, slotA)
					before := after.clone()
					_, err := Repair(after, after.size)
					if cuts++; errors.Is(err, ErrDamaged) {
						// A directory's new cluster that was written in part.
						refused++
						t.Logf("%s: %v", at, err)
						if !maps.EqualFunc(before.pages, after.pages, bytes.Equal) {
							t.Fatalf("%s: Repair = %v, and wrote", at, err)
						}
						continue
					}
					if err != nil {
						t.Fatalf("%s: Repair = %v", at, err)
					}
					checkTree(t, after, slotA, "")
					checkFsck(t, after)
					if t.Failed() {
						t.Fatal(at)
					}
				}
			}
			t.Logf("%d steps, %d cuts, %d refused", len(steps), cuts, refused)
			if refused > cuts/20 {
				t.Errorf("%d of %d cuts could not be repaired; want a few at most", refused, cuts)
			}
		})
	}
}

// upgradeSteps has mtools empty slot B and write it anew, on a volume whose
// free space holds old data.
func upgradeSteps(t *testing.T, size int64, files tree, args ...string) []step {
	dir := t.TempDir()
	d := makeByTools(t, size, files, args...)
	m := open(t, d)
	for c := m.v.clusters + 1; c > firstCluster; c-- {
		if at := m.v.clusterAt(c); c < 6000 && m.entry(c) == 0 {
			d.apply(at, randomBytes(int(m.v.clusterBytes), uint64(c)))
		}
	}
	image := save(t, d)
	var steps []step
	do := func(name string, args ...string) {
		run(t, name, append([]string{"-i", image}, args...)...)
		next := load(t, image)
		steps = append(steps, step{fmt.Sprint(len(steps), " ", name, " ", args[len(args)-1]), d, next})
		d = next
	}
	from := func(name string, n int) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, randomBytes(n, uint64(n)), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	do("mdeltree", "::B")
	do("mmd", "::B")
	do("mcopy", from("kernel8.img", 290_000), "::B/kernel8.img")
	do("mmd", "::B/overlays")
	for i := range 16 {
		name := fmt.Sprintf("another-overlay-with-a-long-name-%d.dtbo", i)
		do("mcopy", from(name, 3000-90*i), "::B/overlays/"+name)
	}
	do("mcopy", "-o", from("kernel8.img", 100_000), "::B/kernel8.img")
	do("mren", "::B/kernel8.img", "::B/kernel of another name.img")
	do("mdel", "::B/overlays/another-overlay-with-a-long-name-3.dtbo")
	return steps
}

// cutStep lets each sector that a step changes reach the disk or not, on a
// volume that is mounted.
func cutStep(t *testing.T, s step, seed uint64) *ramDisk {
	disk, random := s.before.clone(), rand.New(rand.NewPCG(seed, 3))
	odds := 1 + random.IntN(6) // of 7
	for _, n := range slices.Sorted(maps.Keys(s.after.pages)) {
		if bytes.Equal(s.before.pages[n], s.after.pages[n]) {
			continue
		}
		for at := n * pageSize; at < min((n+1)*pageSize, disk.size); at += 512 {
			if random.IntN(7) < odds {
				disk.apply(at, s.after.bytes(at, 512))
			}
		}
	}
	m := open(t, disk)
	m.markDirty()
	if seed%4 == 0 {
		m.apply(m.v.infoAt+infoFree, binary.LittleEndian.AppendUint32(nil, 12345))
	}
	return disk
}
