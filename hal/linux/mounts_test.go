package linux

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"machined/hal"
	"machined/hal/conformance"
	"machined/tools/testenv"
)

func TestMounts(t *testing.T) {
	testenv.NeedRoot(t)
	conformance.Mounts(t, func(t *testing.T) conformance.MountsRig {
		base := t.TempDir()
		r := conformance.MountsRig{Mounts: Mounts{}, Image: makeExt4(t, 16<<20), FSType: "ext4", NoLoop: noLoop()}
		r.Dir = func(name string) string {
			dir := filepath.Join(base, name)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			return dir
		}
		r.Use = func(t *testing.T, target string) func() {
			f, err := os.Create(filepath.Join(target, "open"))
			if err != nil {
				t.Fatal(err)
			}
			return func() { f.Close() }
		}
		r.Attached = func(device string) bool {
			_, err := os.Stat("/sys/block/" + filepath.Base(device) + "/loop/backing_file")
			return err == nil
		}
		if r.NoLoop == "" {
			r.Blank = attach(t, makeBlank(t, 1<<20), 0)
		}
		return r
	})
}

// noLoop says why loop devices cannot be had here; "" where they can.
func noLoop() string {
	f, err := os.Open("/dev/loop-control")
	if err != nil {
		return fmt.Sprintf("no loop devices: %v", err)
	}
	f.Close()
	return ""
}

func makeBlank(t *testing.T, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "blank")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	return path
}

// makeExt4 makes a file with a file system as STATE's template has it.
func makeExt4(t *testing.T, size int64) string {
	t.Helper()
	path := makeBlank(t, size)
	if out, err := exec.Command("mke2fs", "-q", "-t", "ext4", "-b", "4096", "-m", "0", path).CombinedOutput(); err != nil {
		t.Fatalf("mke2fs: %v: %s", err, out)
	}
	return path
}

// attach makes a writable loop device of path, until the test ends.
func attach(t *testing.T, path string, flags uint32) string {
	t.Helper()
	backing, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer backing.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		t.Fatal(err)
	}
	device := fmt.Sprint("/dev/loop", n)
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	config := unix.LoopConfig{Fd: uint32(backing.Fd())}
	config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | flags
	if err := unix.IoctlLoopConfigure(int(f.Fd()), &config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return device
}

func TestParseMountInfo(t *testing.T) {
	for _, c := range []struct {
		line string
		want hal.MountInfo
		ok   bool
	}{
		{
			"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue",
			hal.MountInfo{Source: "/dev/root", Target: "/mnt2", FSType: "ext3"}, true,
		},
		{
			`40 35 0:5 / /mnt/a\040b\134c ro,nosuid - tmpfs a\011b rw`,
			hal.MountInfo{Source: "a\tb", Target: `/mnt/a b\c`, FSType: "tmpfs", ReadOnly: true}, true,
		},
		// A file system that the kernel made read-only after an error, or that
		// can be nothing else, has it in its own options only.
		{
			"41 35 7:0 / /system rw,nodev - squashfs /dev/loop0 ro,errors=continue",
			hal.MountInfo{Source: "/dev/loop0", Target: "/system", FSType: "squashfs", ReadOnly: true}, true,
		},
		// The source may be empty.
		{"42 35 0:6 / /tmp rw - tmpfs  rw,size=1k", hal.MountInfo{Target: "/tmp", FSType: "tmpfs"}, true},
		{"42 35 0:6 / /tmp rw", hal.MountInfo{}, false},
		{"", hal.MountInfo{}, false},
	} {
		if got, ok := parseMountInfo(c.line); got != c.want || ok != c.ok {
			t.Errorf("parseMountInfo(%q) = %+v, %v; want %+v, %v", c.line, got, ok, c.want, c.ok)
		}
	}
}
