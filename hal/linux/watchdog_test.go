package linux

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"machined/hal"
	"machined/hal/conformance"
	"machined/tools/testenv"
)

// device is a file in a watchdog device's place: what is written to it is
// kept. No build machine has a watchdog to spare.
func device(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "watchdog")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWatchdog(t *testing.T) {
	conformance.Watchdog(t, func(t *testing.T) conformance.WatchdogRig {
		dog := NewWatchdog(device(t))
		t.Cleanup(func() { _ = dog.Disarm() })
		return conformance.WatchdogRig{
			Watchdog: dog, Absent: NewWatchdog(device(t) + "-not"),
			Armed: func() bool { return dog.FD() >= 0 },
		}
	})
}

// TestWatchdogWrites checks the bytes: the kernel takes a V just before the
// close for "disarm" (the magic close), and anything else for a feeding.
func TestWatchdogWrites(t *testing.T) {
	path := device(t)
	dog := NewWatchdog(path)
	if _, err := dog.Start(15); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := dog.Feed(); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(path); len(got) != 2 || bytes.ContainsRune(got, 'V') {
		t.Errorf("two feedings wrote %q; want two bytes without a V", got)
	}
	if err := dog.Disarm(); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); len(got) != 3 || got[2] != 'V' {
		t.Errorf("Disarm wrote %q at last; want V as the last byte", got)
	}
}

// TestWatchdogUnready covers a device node without a driver behind it.
func TestWatchdogUnready(t *testing.T) {
	testenv.NeedRoot(t)
	path := filepath.Join(t.TempDir(), "watchdog")
	const majorOfNobody = 240 // local and experimental use
	if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(majorOfNobody, 130))); err != nil {
		t.Fatal(err)
	}
	if _, err := NewWatchdog(path).Start(15); !isNoDevice(err) {
		t.Errorf("Start on a node without a driver = %v; want %v", err, hal.ErrNoDevice)
	}
}

// TestWatchdogStaysOurs tells of a payload that kept the watchdog open: the
// device was open without O_CLOEXEC, for the sake of machined's own exec(2),
// and every service inherited it. With the device open elsewhere the magic
// close stops nothing, and a node that was switched off came back on by its
// watchdog.
func TestWatchdogStaysOurs(t *testing.T) {
	first := NewWatchdog(device(t))
	if _, err := first.Start(15); err != nil {
		t.Fatal(err)
	}
	if !closesOnExec(t, first.FD()) {
		t.Error("services would inherit the watchdog that was started")
	}
	if err := KeepWatchdog(first.FD(), true); err != nil || closesOnExec(t, first.FD()) {
		t.Errorf("KeepWatchdog(true) = %v; want the successor to inherit the device", err)
	}
	second := InheritWatchdog("watchdog", first.FD())
	if !closesOnExec(t, second.FD()) {
		t.Error("services would inherit the watchdog from the successor")
	}
	if err := second.Feed(); err != nil {
		t.Errorf("Feed() of the inherited device = %v; want success", err)
	}
	if err := second.Disarm(); err != nil {
		t.Errorf("Disarm() of the inherited device = %v; want success", err)
	}
	if err := KeepWatchdog(second.FD(), false); err == nil {
		t.Error("KeepWatchdog of a closed device succeeded; want an error")
	}
}

func closesOnExec(t *testing.T, fd int) bool {
	t.Helper()
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil {
		t.Fatal(err)
	}
	return flags&unix.FD_CLOEXEC != 0
}
