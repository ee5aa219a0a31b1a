//go:build linux

package qemu

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestMakeDisk(t *testing.T) {
	const mib = 1 << 20
	image := filepath.Join(t.TempDir(), "node.img")
	contents := make([]byte, 5*mib+512) // ends in the middle of a block
	copy(contents, "partition table")
	copy(contents[3*mib+7:], "boot partition")
	copy(contents[len(contents)-3:], "end")
	if err := os.WriteFile(image, contents, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name       string
		size, want int64
	}{
		{"larger than the image", 64 * mib, 64 * mib},
		// The SD card of the Pi's model takes powers of two alone.
		{"smaller than the image", 1 * mib, 8 * mib},
	} {
		disk := filepath.Join(t.TempDir(), "disk.img")
		if err := makeDisk(disk, image, c.size); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(disk)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(got)) != c.want || c.want&(c.want-1) != 0 {
			t.Errorf("%s: the disk has %d bytes; want %d", c.name, len(got), c.want)
		}
		if !bytes.Equal(got[:len(contents)], contents) || len(bytes.Trim(got[len(contents):], "\x00")) != 0 {
			t.Errorf("%s: the disk is not the image with zeros behind it", c.name)
		}
		if used := usedBytes(t, disk); used > mib {
			t.Errorf("%s: the disk uses %d bytes; want holes for the zeros", c.name, used)
		}
	}
}

func usedBytes(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

// TestMakeDiskKeeps has a node find its disk as it left it.
func TestMakeDiskKeeps(t *testing.T) {
	dir := t.TempDir()
	image, disk := filepath.Join(dir, "node.img"), filepath.Join(dir, "disk.img")
	for path, text := range map[string]string{image: "new", disk: "old"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := makeDisk(disk, image, 1<<20); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(disk); err != nil || string(got) != "old" {
		t.Errorf("makeDisk() left %q, %v; want the disk as it was", got, err)
	}
}

func TestMakeDiskFails(t *testing.T) {
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk.img")
	if err := makeDisk(disk, filepath.Join(dir, "none.img"), 1<<20); err == nil || !strings.Contains(err.Error(), "none.img") {
		t.Errorf("makeDisk() = %v without an image; want an error that names it", err)
	}
	// A directory can be opened and not read.
	if err := makeDisk(disk, t.TempDir(), 1<<20); err == nil {
		t.Error("makeDisk() = nil from a directory; want an error")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v; want nothing", left, err)
	}
}
