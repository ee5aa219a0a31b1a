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

	"machined/hal"
	"machined/tools/testenv"
)

// run runs one of the real tools, which have to be installed in CI.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	testenv.Need(t, name)
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// save writes a disk to a sparse file, for tools to judge.
func save(t *testing.T, disk *ramDisk, start, size int64) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	for n, p := range disk.pages {
		from, to := max(n*pageSize, start), min((n+1)*pageSize, start+size)
		if from >= to {
			continue
		}
		if _, err := f.WriteAt(p[from-n*pageSize:to-n*pageSize], from-start); err != nil {
			t.Fatal(err)
		}
	}
	return f.Name()
}

// checkExt4 has e2fsck judge a volume.
func checkExt4(t *testing.T, disk *ramDisk, label string) {
	t.Helper()
	e := mustFind(t, disk, label)
	if out := run(t, "e2fsck", "-f", "-n", save(t, disk, e.Start, e.Size)); !strings.Contains(out, label+": ") {
		t.Errorf("e2fsck says %q; want the label %s", out, label)
	}
}

// checkTable has sgdisk or sfdisk judge the partition table.
func checkTable(t *testing.T, disk *ramDisk) {
	t.Helper()
	image := save(t, disk, 0, disk.size)
	run(t, "sfdisk", "--verify", image)
	if readTable(t, disk).Kind != hal.GPT {
		return
	}
	if out := run(t, "sgdisk", "-v", image); !strings.Contains(out, "No problems found") {
		t.Errorf("sgdisk -v says\n%s", out)
	}
}

func TestGPTByTools(t *testing.T) {
	made := realTemplates(t)
	for _, c := range []struct{ size, tableSize int64 }{{64 * mib, 64 * mib}, {300 * mib, 8 * mib}, {300*mib + 512, 64 * mib}} {
		disk := newRAMDisk(c.size)
		imageGPT(t, disk, c.tableSize)
		mustProvision(t, disk, made, state, ephemeral)
		checkTable(t, disk)
		for _, label := range []string{"STATE", "EPHEMERAL"} {
			e := mustFind(t, disk, label)
			out := run(t, "sgdisk", "-i", fmt.Sprint(e.Number), save(t, disk, 0, disk.size))
			if !strings.Contains(out, "Partition name: '"+label+"'") || !strings.Contains(out, "Linux filesystem") {
				t.Errorf("sgdisk -i %d says\n%s", e.Number, out)
			}
			checkExt4(t, disk, label)
		}
		checkBoot(t, disk)
	}
}

func TestMBRByTools(t *testing.T) {
	disk := newRAMDisk(300 * mib)
	imageMBR(t, disk)
	mustProvision(t, disk, realTemplates(t), state, ephemeral)
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
	if err := json.Unmarshal([]byte(run(t, "sfdisk", "--json", save(t, disk, 0, disk.size))), &dump); err != nil {
		t.Fatal(err)
	}
	table := dump.PartitionTable
	if table.Label != "dos" || table.ID != "0x1234abcd" || len(table.Partitions) != 3 {
		t.Fatalf("sfdisk sees %+v; want an MBR of the same signature with three partitions", table)
	}
	if boot := table.Partitions[0]; !boot.Bootable || boot.Type != "c" || boot.Start != bootStart/sectorSize || boot.Size != bootSize/sectorSize {
		t.Errorf("sfdisk sees the boot partition as %+v; want it as it was", boot)
	}
	for i, label := range []string{"STATE", "EPHEMERAL"} {
		e := mustFind(t, disk, label)
		if got := table.Partitions[i+1]; got.Type != "83" || got.Start*sectorSize != e.Start || got.Size*sectorSize != e.Size {
			t.Errorf("sfdisk sees %s as %+v; want %+v of type 83", label, got, e)
		}
		checkExt4(t, disk, label)
	}
	checkTable(t, disk)
	checkBoot(t, disk)
}

// TestOverRemains makes volumes on a disk that is full of something else, with
// either template. Nothing of it must show through, and blkid must see nothing
// but ext4.
func TestOverRemains(t *testing.T) {
	made := realTemplates(t)
	for _, size := range []int64{64 * mib, 600 * mib} {
		disk := newRAMDisk(size)
		disk.fill = 0xa5
		if err := provision(disk, made, true, state, ephemeral); err != nil {
			t.Fatal(err)
		}
		disk.record = nil
		for _, label := range []string{"STATE", "EPHEMERAL"} {
			e := mustFind(t, disk, label)
			image := filepath.Join(t.TempDir(), "image")
			f, err := os.Create(image)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(f, io.NewSectionReader(disk, e.Start, e.Size)); err != nil {
				t.Fatal(err)
			}
			f.Close()
			run(t, "e2fsck", "-f", "-n", image)
			if out := run(t, "blkid", "-p", "-o", "value", "-s", "TYPE", image); strings.TrimSpace(out) != "ext4" {
				t.Errorf("blkid sees %q; want ext4", out)
			}
		}
		checkTable(t, disk)
	}
}

// TestBytesWritten keeps the writes to a slow card few.
func TestBytesWritten(t *testing.T) {
	made := realTemplates(t)
	for _, c := range []struct {
		volume hal.NewVolume
		most   int
	}{{hal.NewVolume{Label: "STATE", Size: 128 * mib}, 1200 << 10}, {hal.NewVolume{Label: "EPHEMERAL"}, 7 * mib}} {
		disk := newRAMDisk(1 << 30)
		imageGPT(t, disk, disk.size)
		disk.record = nil
		mustProvision(t, disk, made, c.volume)
		sum, syncs := 0, 0
		for _, o := range disk.record {
			sum += len(o.data)
			if o.data == nil {
				syncs++
			}
		}
		t.Logf("%s: %d bytes in %d writes, %d syncs", c.volume.Label, sum, disk.writes(), syncs)
		if sum > c.most {
			t.Errorf("%s: %d bytes were written; want %d at most", c.volume.Label, sum, c.most)
		}
	}
}
