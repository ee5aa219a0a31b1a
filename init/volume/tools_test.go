package volume

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// run runs one of the real tools, which have to be installed in CI.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") != "true" {
		t.Skipf("%s is not installed", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// newFile returns a sparse file of size bytes in a disk's place.
func newFile(t *testing.T, size int64) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return f
}

// realTemplate makes the template as an image carries it.
func realTemplate(t *testing.T) func() (io.ReadCloser, error) {
	t.Helper()
	f := newFile(t, 16*mib)
	run(t, "mke2fs", "-q", "-t", "ext4", "-b", "4096", "-I", "256", "-N", "2048", "-m", "0", "-L", Name, f.Name())
	contents, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return packed(contents)
}

// checkExt4 has e2fsck judge the partition.
func checkExt4(t *testing.T, disk *os.File, e Extent) {
	t.Helper()
	part := newFile(t, e.Size)
	if _, err := io.Copy(part, io.NewSectionReader(disk, e.Start, e.Size)); err != nil {
		t.Fatal(err)
	}
	out := run(t, "e2fsck", "-f", "-n", part.Name())
	if !strings.Contains(out, Name+": ") {
		t.Errorf("e2fsck says %q; want the label %s", out, Name)
	}
}

func TestGPTByTools(t *testing.T) {
	template := realTemplate(t)
	for _, c := range []struct{ size, tableSize int64 }{{64 * mib, 64 * mib}, {300 * mib, 8 * mib}, {300*mib + 512, 64 * mib}} {
		disk := newFile(t, c.size)
		writeGPT(t, disk, c.tableSize)
		// Remains of an older file system must not show through.
		if _, err := disk.WriteAt([]byte(strings.Repeat("remains ", mib/8)), 6*mib); err != nil {
			t.Fatal(err)
		}
		e, err := ensure(disk, c.size, template)
		if err != nil {
			t.Fatal(err)
		}
		if out := run(t, "sgdisk", "-v", disk.Name()); !strings.Contains(out, "No problems found") {
			t.Errorf("table for %d bytes on a disk of %d: sgdisk -v says\n%s", c.tableSize, c.size, out)
		}
		if out := run(t, "sgdisk", "-i", fmt.Sprint(e.Number), disk.Name()); !strings.Contains(out, "Partition name: '"+Name+"'") || !strings.Contains(out, "Linux filesystem") {
			t.Errorf("sgdisk -i %d says\n%s", e.Number, out)
		}
		checkExt4(t, disk, e)
		checkBoot(t, disk)
	}
}

func TestMBRByTools(t *testing.T) {
	disk := newFile(t, 300*mib)
	writeMBR(t, disk)
	e, err := ensure(disk, 300*mib, realTemplate(t))
	if err != nil {
		t.Fatal(err)
	}
	var dump struct {
		PartitionTable struct {
			Label, ID  string
			Partitions []struct {
				Start, Size int64
				Type        string
				Bootable    bool
			}
		}
	}
	if err := json.Unmarshal([]byte(run(t, "sfdisk", "--json", disk.Name())), &dump); err != nil {
		t.Fatal(err)
	}
	table := dump.PartitionTable
	if table.Label != "dos" || table.ID != "0x1234abcd" || len(table.Partitions) != 2 {
		t.Fatalf("sfdisk sees %+v; want an MBR of the same signature with two partitions", table)
	}
	if boot := table.Partitions[0]; !boot.Bootable || boot.Type != "c" || boot.Start != bootStart/sectorSize || boot.Size != bootSize/sectorSize {
		t.Errorf("sfdisk sees the boot partition as %+v; want it as it was", boot)
	}
	if state := table.Partitions[1]; state.Type != "83" || state.Start*sectorSize != e.Start || state.Size*sectorSize != e.Size {
		t.Errorf("sfdisk sees STATE as %+v; want %+v of type 83", state, e)
	}
	run(t, "sfdisk", "--verify", disk.Name())
	checkExt4(t, disk, e)
	checkBoot(t, disk)
}
