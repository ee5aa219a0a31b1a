package boottest

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
)

// partition is an entry of a disk's table as sfdisk reads it; start and size
// are bytes.
type partition struct {
	number      int
	start, size int64
}

// partitions has sfdisk read the table of disk, and checks that STATE is there.
func partitions(t *testing.T, disk string) []partition {
	t.Helper()
	out, err := exec.Command("sfdisk", "--json", disk).Output()
	if err != nil {
		t.Fatalf("sfdisk --json: %v", err)
	}
	var table struct {
		PartitionTable struct {
			Partitions []struct{ Start, Size int64 }
		}
	}
	if err := json.Unmarshal(out, &table); err != nil {
		t.Fatal(err)
	}
	var list []partition
	for i, p := range table.PartitionTable.Partitions {
		list = append(list, partition{number: i + 1, start: p.Start * 512, size: p.Size * 512})
	}
	if len(list) != 2 {
		t.Fatalf("the disk has %d partitions; want the boot partition and STATE", len(list))
	}
	return list
}

// bootVolume is mtools's name of the boot partition of disk.
func bootVolume(t *testing.T, disk string) string {
	t.Helper()
	return fmt.Sprintf("%s@@%d", disk, partitions(t, disk)[0].start)
}

func copyRange(t *testing.T, from, to string, start, size int64) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := io.Copy(out, io.NewSectionReader(in, start, size)); err != nil {
		t.Fatal(err)
	}
}

func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}
