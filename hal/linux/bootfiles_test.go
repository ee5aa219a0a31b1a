package linux

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"machined/hal"
	"machined/hal/conformance"
	"machined/hal/fake"
)

// bootMount is a mount that only remembers how it was last remounted.
type bootMount struct {
	writable bool
	err      error
}

func (m *bootMount) remount(readOnly bool) error {
	if m.err == nil {
		m.writable = !readOnly
	}
	return m.err
}

func TestBootFiles(t *testing.T) {
	conformance.BootFiles(t, func(t *testing.T) conformance.BootFilesRig {
		m := &bootMount{}
		return conformance.BootFilesRig{
			Files:    &BootFiles{Dir: t.TempDir(), Remount: m.remount},
			Writable: func() bool { return m.writable },
		}
	})
}

// TestBootFilesStayInside has links that lead out of the boot partition. FAT
// has none, but a directory that is no mount point has what somebody left.
func TestBootFilesStayInside(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	victim := filepath.Join(outside, "victim")
	if err := os.WriteFile(victim, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"file": victim, "dir": outside} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	b := &BootFiles{Dir: dir, Remount: (&bootMount{}).remount}
	if err := b.Unlock(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"file", "dir/victim"} {
		if data, err := b.Read(path); err == nil {
			t.Errorf("Read of %s = %q; want an error", path, data)
		}
		if _, err := b.Create(path, 1); err == nil {
			t.Errorf("Create of %s succeeds; want an error", path)
		}
		if err := b.Overwrite(path, 0, []byte("x")); err == nil {
			t.Errorf("Overwrite of %s succeeds; want an error", path)
		}
	}
	if err := b.Remove("dir"); err != nil {
		t.Errorf("Remove of a link = %v; want success", err)
	}
	if data, err := os.ReadFile(victim); string(data) != "untouched" || err != nil {
		t.Errorf("the file outside holds %q, %v; want it untouched", data, err)
	}
}

// TestBootFilesRemount checks what happens to the flags of the mount, and that
// nothing is written where the kernel refused.
func TestBootFilesRemount(t *testing.T) {
	m := &fake.Mounts{}
	m.AddDevice("/dev/mmcblk0p1", "vfat")
	mount := hal.Mount{Source: "/dev/mmcblk0p1", Target: "/boot", FSType: "vfat", Flags: hal.ReadOnly | hal.NoSuid | hal.NoDev}
	if err := m.Mount(mount); err != nil {
		t.Fatal(err)
	}
	b := &BootFiles{Dir: t.TempDir(), Remount: RemountBoot(m, mount)}
	if err := b.Unlock(); err != nil {
		t.Fatal(err)
	}
	if got, want := m.Flags("/boot"), hal.NoSuid|hal.NoDev; got != want {
		t.Errorf("unlocked, the flags are %b; want %b", got, want)
	}
	m.Fail("Mount", 1, errors.New("busy"))
	if err := b.Lock(); err == nil {
		t.Error("Lock succeeds though the kernel refuses; want an error")
	}
	if err := b.Lock(); err != nil {
		t.Errorf("Lock, once more = %v; want success", err)
	}
	if got := m.Flags("/boot"); got != mount.Flags {
		t.Errorf("locked, the flags are %b; want %b", got, mount.Flags)
	}
	m.Fail("Mount", 1, errors.New("write protected"))
	if err := b.Unlock(); err == nil {
		t.Error("Unlock succeeds though the kernel refuses; want an error")
	}
	if _, err := b.Create("file", 1); !errors.Is(err, hal.ErrLocked) {
		t.Errorf("Create after a refused Unlock = %v; want %v", err, hal.ErrLocked)
	}
}

// TestBootFilesStream writes and hashes a file of 64 MiB in little memory.
func TestBootFilesStream(t *testing.T) {
	b := &BootFiles{Dir: t.TempDir(), Remount: (&bootMount{}).remount}
	if err := b.Unlock(); err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w, err := b.Create("B/system.squashfs", size)
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 1<<20)
	for range size / len(buffer) {
		if _, err := w.Write(buffer); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Hash("B/system.squashfs"); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("writing and hashing 64 MiB allocates %d bytes; want at most 4 MiB", used)
	}
}
