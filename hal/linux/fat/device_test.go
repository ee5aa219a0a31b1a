package fat

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"machined/hal"
)

func TestRepairDevice(t *testing.T) {
	files := bootTree()
	m := open(t, makeVolume(t, 40*mib, files))
	clean := save(t, m.ramDisk)
	m.markDirty()
	m.set(m.free(0), lastCluster)
	path := save(t, m.ramDisk)
	if got, dirty, err := RepairDevice(path); err != nil || !dirty || got.Freed != 1 {
		t.Errorf("RepairDevice = %+v, %t, %v; want a cluster freed", got, dirty, err)
	}
	checkClean(t, load(t, path))
	checkTree(t, load(t, path), files, "")
	if got, dirty, err := RepairDevice(path); err != nil || dirty || got.String() != "nothing to repair" {
		t.Errorf("RepairDevice again = %v, %t, %v; want nothing", got, dirty, err)
	}
	// A clean one is not even touched.
	long := time.Unix(1e9, 0)
	if err := os.Chtimes(clean, long, long); err != nil {
		t.Fatal(err)
	}
	_, dirty, err := RepairDevice(clean)
	if info, statErr := os.Stat(clean); err != nil || dirty || statErr != nil || !info.ModTime().Equal(long) {
		t.Errorf("RepairDevice of a clean volume = %t, %v, and wrote", dirty, err)
	}
}

func TestRepairDeviceRefuses(t *testing.T) {
	dir := t.TempDir()
	zeros := filepath.Join(dir, "zeros")
	if err := os.WriteFile(zeros, bytes.Repeat([]byte{0}, mib), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		path string
		want error
	}{
		{filepath.Join(dir, "none"), hal.ErrNoDevice},
		{dir, hal.ErrInvalid},
		{"/dev/null", hal.ErrInvalid},
		{zeros, ErrNotFAT32},
	}
	for _, tt := range tests {
		if _, dirty, err := RepairDevice(tt.path); !errors.Is(err, tt.want) || dirty {
			t.Errorf("RepairDevice(%s) = %t, %v; want %v", tt.path, dirty, err, tt.want)
		}
	}
}

// BenchmarkRepair frees an eighth of a volume in memory.
func BenchmarkRepair(b *testing.B) {
	for name, size := range map[string]int64{"256MiB": 256 * mib, "2GiB": 2 << 30} {
		b.Run(name, func(b *testing.B) {
			m := open(b, makeVolume(b, size, bootTree()))
			m.markDirty()
			last := m.free(0)
			for c := last - m.v.clusters/8; c < last; c++ {
				m.set(c, c+1)
			}
			m.set(last, lastCluster)
			b.ReportAllocs()
			for b.Loop() {
				d := m.clone()
				if r, err := Repair(d, d.size); err != nil || r.Freed < 1000 {
					b.Fatal(r, err)
				}
			}
			b.ReportMetric(float64(m.v.clusters), "clusters")
		})
	}
}
