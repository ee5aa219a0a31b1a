package fat

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// volumes are made by different programs, with clusters of different sizes.
// The disk is a little larger than the volume.
func volumes(t *testing.T) map[string]*ramDisk {
	files := bootTree()
	made := map[string]*ramDisk{
		"fat32, clusters of 512":   makeVolume(t, 40*mib, files),
		"fat32, clusters of 4096":  makeVolume(t, 300*mib, files),
		"mtools, clusters of 512":  makeByTools(t, 36*mib, files, "-s", "1"),
		"mtools, clusters of 1024": makeByTools(t, 72*mib, files, "-s", "2"),
	}
	for _, d := range made {
		d.size += 3000
	}
	return made
}

func TestRepair(t *testing.T) {
	files := bootTree()
	for name, sound := range volumes(t) {
		for _, d := range damages() {
			t.Run(name+"/"+d.name, func(t *testing.T) {
				t.Parallel()
				m := open(t, sound.clone())
				m.markDirty()
				d.do(t, m)
				m.record = nil
				if dirty, err := Dirty(m, m.size); err != nil || !dirty {
					t.Fatalf("Dirty = %t, %v before; want true", dirty, err)
				}
				got, err := Repair(m, m.size)
				if err != nil {
					t.Fatalf("Repair = %v", err)
				}
				checkReport(t, got, d.want)
				checkClean(t, m.ramDisk)
				checkTree(t, m.ramDisk, files, append(d.except, "")...)
			})
		}
	}
}

// checkReport compares what a test is sure of.
func checkReport(t *testing.T, got, want Report) {
	t.Helper()
	if !got.Dirty {
		t.Error("the report does not say that the volume was dirty")
	}
	for what, n := range map[string][2]int{
		"Mirrored": {got.Mirrored, want.Mirrored}, "Freed": {got.Freed, want.Freed}, "LongNames": {got.LongNames, want.LongNames},
		"Gaps": {got.Gaps, want.Gaps},
	} {
		if n[0] != n[1] && n[1] != -2 && (n[1] != -1 || n[0] == 0) {
			t.Errorf("%s = %d; want %d", what, n[0], n[1])
		}
	}
	for what, p := range map[string][2]Paths{
		"Shortened": {got.Shortened, want.Shortened}, "Trimmed": {got.Trimmed, want.Trimmed}, "Removed": {got.Removed, want.Removed},
	} {
		if p[0].Count != p[1].Count || !slices.Equal(p[0].First, p[1].First) {
			t.Errorf("%s = %+v; want %+v", what, p[0], p[1])
		}
	}
	if got.Summary != want.Summary && want.Freed == 0 || got.FromSecond != want.FromSecond {
		t.Errorf("Summary, FromSecond = %t, %t; want %t, %t", got.Summary, got.FromSecond, want.Summary, want.FromSecond)
	}
}

// checkClean has fsck.fat judge, and requires that a repair finds nothing more.
func checkClean(t *testing.T, d *ramDisk) {
	t.Helper()
	if dirty, err := Dirty(d, d.size); err != nil || dirty {
		t.Fatalf("Dirty = %t, %v; want false", dirty, err)
	}
	checkFsck(t, d)
	again := d.clone()
	if got, err := Repair(again, again.size); err != nil || len(again.record) > 0 {
		t.Errorf("Repair of a clean volume = %v, %v, and wrote %d times; want nothing", got, err, len(again.record))
	}
	if got, err := RepairAnyway(again, again.size); err != nil || got.String() != "nothing to repair" {
		t.Errorf("RepairAnyway of a clean volume = %v, %v; want nothing to repair", got, err)
	}
	if !maps.EqualFunc(again.pages, d.pages, slices.Equal) {
		t.Errorf("RepairAnyway changed a clean volume")
	}
}

// TestAnyway repairs a volume that is not marked, and has it marked meanwhile.
func TestAnyway(t *testing.T) {
	m := open(t, makeVolume(t, 40*mib, bootTree()))
	m.set(m.free(0), lastCluster)
	if got, err := Repair(m, m.size); err != nil || len(m.record) != 0 {
		t.Fatalf("Repair = %v, %v, and wrote %d times; want nothing", got, err, len(m.record))
	}
	got, err := RepairAnyway(m, m.size)
	if err != nil || got.Freed != 1 || got.Dirty {
		t.Errorf("RepairAnyway = %+v, %v; want one cluster freed", got, err)
	}
	if first := m.record[0]; first.off != 0 || first.data[bootState]&stateDirty == 0 {
		t.Errorf("the first write is at %d; want the volume marked dirty", first.off)
	}
	checkClean(t, m.ramDisk)
}

// TestRefused has damage that no cut explains. Not a byte is written.
func TestRefused(t *testing.T) {
	tests := []struct {
		name string
		do   func(t *testing.T, m image)
		want error
		says string
	}{
		{"no boot sector", func(_ *testing.T, m image) { m.apply(0, make([]byte, 512)) }, ErrNotFAT32, ""},
		{"FAT16", func(_ *testing.T, m image) { m.poke(22, 1) }, ErrNotFAT32, ""},
		{"no mirror", func(_ *testing.T, m image) { m.poke(40, 0x81) }, ErrNotFAT32, ""},
		{"clusters of nothing", func(_ *testing.T, m image) { m.poke(13, 0) }, ErrNotFAT32, ""},
		{"beyond the disk", func(_ *testing.T, m image) { m.poke(35, 0xff) }, ErrNotFAT32, ""},
		{"cross-linked files", func(t *testing.T, m image) {
			_, a := m.find(t, "A/KERNEL8.IMG")
			_, b := m.find(t, kernel)
			m.set(m.chain(b.first())[3], m.chain(a.first())[7])
		}, ErrDamaged, "kernel8.img\": cluster"},
		{"two files of one chain", func(t *testing.T, m image) {
			at, a := m.find(t, "A/KERNEL8.IMG")
			b, _ := m.find(t, kernel)
			m.apply(b+direntHigh, a[direntHigh:direntHigh+2])
			m.apply(b+direntLow, m.bytes(at+direntLow, 2))
		}, ErrDamaged, "kernel8.img"},
		{"surplus in another file", func(t *testing.T, m image) {
			_, a := m.find(t, "A/KERNEL8.IMG")
			_, b := m.find(t, kernel)
			chain := m.chain(b.first())
			m.set(chain[len(chain)-1], m.chain(a.first())[7])
		}, ErrDamaged, "two chains"},
		{"file loops", func(t *testing.T, m image) {
			_, d := m.find(t, kernel)
			chain := m.chain(d.first())
			m.set(chain[9], chain[4])
		}, ErrDamaged, "loop"},
		{"directory in itself", func(t *testing.T, m image) {
			at, _ := m.find(t, "B/OVERLAYS")
			_, d := m.find(t, "B")
			m.apply(at+direntLow, d[direntLow:direntLow+2])
		}, ErrDamaged, "B/overlays"},
		{"chain leaves the volume", func(t *testing.T, m image) {
			_, d := m.find(t, kernel)
			m.set(m.chain(d.first())[9], 0x0aaaaaaa)
		}, ErrDamaged, "0xaaaaaaa"},
		{"bad cluster in a file", func(t *testing.T, m image) {
			_, d := m.find(t, kernel)
			m.set(m.chain(d.first())[9], badCluster)
		}, ErrDamaged, ""},
		{"root is free", func(_ *testing.T, m image) { m.set(m.v.root, 0) }, ErrDamaged, "root directory"},
		{"root is garbage", func(_ *testing.T, m image) { m.apply(m.v.clusterAt(m.v.root), randomBytes(512, 3)) }, ErrDamaged, "root directory"},
		{"root is out of the volume", func(_ *testing.T, m image) { m.poke(44, 0xff, 0xff, 0xff, 0x0f) }, ErrDamaged, "root directory"},
		{"a bad entry among good ones", func(t *testing.T, m image) {
			at, _ := m.find(t, kernel)
			m.poke(at+direntHigh+1, 0x7f)
		}, ErrDamaged, "\"B\""},
		{"garbage in a directory", func(t *testing.T, m image) {
			_, d := m.find(t, "B/OVERLAYS")
			m.apply(m.v.clusterAt(m.chain(d.first())[1]), randomBytes(512, 4))
		}, ErrDamaged, "B/overlays"},
		{"a directory's start lost", func(t *testing.T, m image) {
			_, d := m.find(t, "B/OVERLAYS")
			m.apply(m.v.clusterAt(d.first()), make([]byte, 512))
		}, ErrDamaged, "B/overlays"},
		{"another directory's parent", func(t *testing.T, m image) {
			_, d := m.find(t, "B/OVERLAYS")
			m.poke(m.v.clusterAt(d.first())+direntBytes+direntLow, 3)
		}, ErrDamaged, "B/overlays"},
		{"both FATs start wrong", func(_ *testing.T, m image) { m.set(0, 0) }, ErrDamaged, "FAT 1"},
		{"FSInfo", func(_ *testing.T, m image) { m.poke(m.v.infoAt, 0) }, ErrDamaged, "FSInfo"},
	}
	sound := makeVolume(t, 40*mib, bootTree())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := open(t, sound.clone())
			m.markDirty()
			tt.do(t, m)
			before := m.clone()
			got, err := Repair(m, m.size)
			if !errors.Is(err, tt.want) || !strings.Contains(fmt.Sprint(err), tt.says) || !strings.Contains(fmt.Sprint(err), "fsck.fat") {
				t.Errorf("Repair = %v, %v; want %v with %q", got, err, tt.want, tt.says)
			}
			if len(m.record) > 0 || !maps.EqualFunc(m.pages, before.pages, slices.Equal) {
				t.Errorf("Repair wrote %d times; want nothing", len(m.record))
			}
		})
	}
}

func TestTooLarge(t *testing.T) {
	m := open(t, makeVolume(t, 3<<30, tree{"x": []byte("y")}))
	m.markDirty()
	if dirty, err := Dirty(m, m.size); !dirty || err != nil {
		t.Errorf("Dirty = %t, %v; want true", dirty, err)
	}
	if _, err := Repair(m, m.size); !errors.Is(err, ErrTooLarge) || len(m.record) > 0 {
		t.Errorf("Repair = %v and wrote %d times; want %v", err, len(m.record), ErrTooLarge)
	}
}

// TestErrors has each operation of a repair fail in turn.
func TestErrors(t *testing.T) {
	sound := open(t, makeVolume(t, 40*mib, bootTree()))
	sound.markDirty()
	for _, d := range damages()[3:] {
		if d.name == "chain cut short" || d.name == "a new directory, not written" {
			d.do(t, sound)
		}
	}
	for fail := 1; ; fail++ {
		d := sound.clone()
		d.fail = fail
		_, err := Repair(d, d.size)
		if len(d.record) < fail {
			if fail < 8 || err != nil {
				t.Errorf("Repair = %v after %d operations", err, len(d.record))
			}
			return
		}
		if err == nil || !strings.Contains(err.Error(), "input/output error") {
			t.Errorf("Repair = %v when operation %d failed", err, fail)
		}
		d.fail = 0
		if _, err := Repair(d, d.size); err != nil {
			t.Errorf("Repair = %v after operation %d had failed", err, fail)
		}
		if len(d.record) > fail {
			checkClean(t, d)
		}
	}
}

func TestReportString(t *testing.T) {
	r := Report{Mirrored: 2, Freed: 3, LongNames: 1, Summary: true, Dirty: true, Shortened: Paths{Count: 9, First: []string{"B/a b\n"}}}
	want := `unfinished and cut to what was written: ["B/a b\n"] and 8 more; lost clusters freed: 3; ` +
		`lost parts of long names removed: 1; sectors of the second FAT made like the first: 2; free space counted anew; marked clean`
	if got := r.String(); got != want {
		t.Errorf("String = %s; want %s", got, want)
	}
}
