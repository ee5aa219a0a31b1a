package boottest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// partition is an entry of a disk's table as sfdisk reads it; start and size
// are bytes.
type partition struct {
	number      int
	start, size int64
}

// The places of the partitions on each board, from 0.
const (
	bootPlace = iota
	statePlace
	ephemeralPlace
	allPlaces
)

// partitions has sfdisk read the table of disk.
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
	if len(list) == 0 || len(list) > allPlaces {
		t.Fatalf("the disk has %d partitions; want the boot partition, STATE and EPHEMERAL at most", len(list))
	}
	return list
}

// volume is the file system of a volume in the words of e2fsprogs.
func volume(t *testing.T, disk string, place int) string {
	t.Helper()
	list := partitions(t, disk)
	if len(list) != allPlaces {
		t.Fatalf("the disk has %d partitions; want the boot partition, STATE and EPHEMERAL", len(list))
	}
	return fmt.Sprintf("%s?offset=%d", disk, list[place].start)
}

// plant writes a file into a volume of a node that is off, as a service would.
func plant(t *testing.T, disk string, place int, name string, data []byte) {
	t.Helper()
	source := filepath.Join(t.TempDir(), "planted")
	if err := os.WriteFile(source, data, 0o600); err != nil {
		t.Fatal(err)
	}
	fs := volume(t, disk, place)
	tool(t, "debugfs", "-w", "-R", "write "+source+" "+name, fs)
	harvest(t, fs, name, data)
}

// harvest compares a file in a file system.
func harvest(t *testing.T, fs, name string, want []byte) {
	t.Helper()
	out, err := exec.Command("debugfs", "-R", "cat "+name, fs).Output()
	if err != nil || !bytes.Equal(out, want) {
		t.Errorf("%s in %s has %d bytes, %v; want the %d that were written", name, fs, len(out), err, len(want))
	}
}

// uuid is that of a volume's file system, which is made once.
func uuid(t *testing.T, fs string) string {
	t.Helper()
	for line := range strings.Lines(tool(t, "dumpe2fs", "-h", fs)) {
		if value, ok := strings.CutPrefix(line, "Filesystem UUID:"); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("%s has no file system with a UUID", fs)
	return ""
}

// repaired copies a volume of a node that lost its power and replays the
// journal, as the next mount would. (On a disk e2fsck loses the offset when it
// opens the file system again after that.)
func repaired(t *testing.T, disk string, place int) string {
	t.Helper()
	p := partitions(t, disk)[place]
	fs := filepath.Join(t.TempDir(), "volume")
	copyRange(t, disk, fs, p.start, p.size)
	out, err := exec.Command("e2fsck", "-p", fs).CombinedOutput()
	var failed *exec.ExitError
	if errors.As(err, &failed) && failed.ExitCode() == 1 {
		err = nil // it has mended something
	}
	if err != nil {
		t.Errorf("e2fsck -p of partition %d: %v\n%s", place+1, err, out)
	}
	return fs
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
	// Without its zeros: most of a new volume has never been written.
	chunk := make([]byte, 1<<20)
	for off := int64(0); off < size; off += int64(len(chunk)) {
		n, err := in.ReadAt(chunk[:min(int64(len(chunk)), size-off)], start+off)
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if bytes.Trim(chunk[:n], "\x00") == nil {
			continue
		}
		if _, err := out.WriteAt(chunk[:n], off); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Truncate(size); err != nil {
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
