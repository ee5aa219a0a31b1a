package fat

import (
	"fmt"
	"slices"
	"testing"
)

// TestPowerCuts cuts the power at every write of a repair. What had not been
// synced by then may have reached the disk or not. Another repair ends clean,
// and no file that was whole is harmed, at no time.
func TestPowerCuts(t *testing.T) {
	files := bootTree()
	made := map[string]*ramDisk{
		"clusters of 512":  makeVolume(t, 40*mib, files),
		"clusters of 4096": makeVolume(t, 300*mib, files),
	}
	for name, sound := range made {
		for i, d := range damages() {
			if i%3 != 0 && (testing.Short() || sound.size > 100*mib) {
				continue
			}
			t.Run(name+"/"+d.name, func(t *testing.T) {
				t.Parallel()
				m := open(t, sound.clone())
				m.markDirty()
				d.do(t, m)
				// Our reader takes no part of a damaged root.
				unreadable := d.want.FromSecond || slices.Contains(d.want.Shortened.First, "/")
				cutEverywhere(t, m.ramDisk, files, append(d.except, ""), unreadable)
			})
		}
	}
}

// damageAll has all the damage at once that goes together, and returns what
// does not stay as it was.
func damageAll(t *testing.T, m image) []string {
	all := damages()
	for _, name := range []string{
		"mark in the FATs", "FATs differ, the first knows more", "lost chains", "chain broken", "first part of a long name lost",
		"a free cluster without a size", "count of free clusters", "a directory grown into old data", "a new directory, not allocated",
	} {
		i := slices.IndexFunc(all, func(d damage) bool { return d.name == name })
		all[i].do(t, m)
	}
	return []string{"B/a long name of a file, with blanks.txt", kernelB}
}

func TestPowerCutsOfAll(t *testing.T) {
	files := bootTree()
	m := open(t, makeVolume(t, 300*mib, files))
	except := damageAll(t, m)
	cutEverywhere(t, m.ramDisk, files, except, false)
}

// TestOrder has clusters freed when no entry on the disk leads to them any
// more, and the marks of a dirty volume taken away when all else is on the disk.
func TestOrder(t *testing.T) {
	m := open(t, makeVolume(t, 300*mib, bootTree()))
	damageAll(t, m)
	if _, err := Repair(m, m.size); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range m.record {
		place := "sync"
		switch {
		case o.data == nil:
		case o.off == 0:
			place = "boot sector"
		case o.off < m.v.fatAt:
			place = "FSInfo"
		case o.off < m.v.copyAt(1):
			place = "FAT 1"
		case o.off < m.v.dataAt:
			place = "FAT 2"
		default:
			place = "directories"
		}
		if len(got) == 0 || got[len(got)-1] != place {
			got = append(got, place)
		}
	}
	want := []string{
		"boot sector", "sync", "FAT 2", "sync", "directories", "sync", "FAT 1", "FAT 2", "sync", "FSInfo", "sync",
		"FAT 1", "sync", "FAT 2", "sync", "boot sector", "sync",
	}
	if !slices.Equal(got, want) {
		t.Errorf("Repair wrote to %q; want %q", got, want)
	}
}

func cutEverywhere(t *testing.T, before *ramDisk, files tree, except []string, unreadable bool) {
	whole, slotA := before.clone(), files.slot("A/")
	if _, err := Repair(whole, whole.size); err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole.record) + 1 {
		for name, after := range outcomes(before, whole.record[:cut], 2) {
			at := fmt.Sprintf("after %d operations, %s", cut, name)
			if !unreadable {
				checkTree(t, after, slotA)
			}
			if _, err := Repair(after, after.size); err != nil {
				t.Fatalf("%s: Repair = %v", at, err)
			}
			checkTree(t, after, files, except...)
			if got, err := RepairAnyway(after.clone(), after.size); err != nil || got.String() != "nothing to repair" {
				t.Errorf("%s: a third repair did %v, %v; want nothing", at, got, err)
			}
			if cut%4 == 0 && (name == "all unsynced" || name == "some sectors, seed 0") {
				checkFsck(t, after)
			}
			if t.Failed() {
				t.Fatalf("%s", at)
			}
		}
	}
}
