package linux

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"machined/hal"
)

// TestBegunTable: an empty disk that lost its power while it got its first
// table was refused as one with a damaged GPT, and never finished. One whose
// table had a partition is somebody's.
func TestBegunTable(t *testing.T) {
	const size, sector = 64 << 20, 512
	for _, c := range []struct {
		name     string
		sgdisk   []string
		cleared  int // sectors from the start
		blank    bool
		troubled bool
	}{
		{"the backup alone", []string{"-o"}, 34, true, false},
		{"no protective MBR yet", []string{"-o"}, 1, true, false},
		{"whole and empty", []string{"-o"}, 0, false, false},
		{"a partition, no protective MBR", []string{"-o", "-n", "1:2048:4096"}, 1, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "disk")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, size); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("sgdisk", append(c.sgdisk, path)...).CombinedOutput(); err != nil {
				t.Fatalf("sgdisk: %v\n%s", err, out)
			}
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.WriteAt(make([]byte, c.cleared*sector), 0)
			if f.Close(); err != nil {
				t.Fatal(err)
			}
			b := &BlockDevices{open: func(path string) (blockFile, error) { return os.Open(path) }}
			d := hal.BlockDevice{Path: path, Size: size}
			if _, err := b.readTable(&d, sector); err != nil {
				t.Fatal(err)
			}
			if d.Blank != c.blank || (d.Trouble != "") != c.troubled || c.blank && d.Table != hal.NoTable {
				t.Errorf("the disk is %+v; want blank: %v, in trouble: %v", d, c.blank, c.troubled)
			}
		})
	}
}
