package linux

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"machined/hal"
	"machined/hal/conformance"
	"machined/tools/testenv"
)

// TestPower calls reboot(2) in PID namespaces made for it. There the kernel
// does not reset the machine but ends the namespace's init, by SIGHUP for a
// restart and by SIGINT for switching off (reboot(2), "Behavior inside PID
// namespaces").
func TestPower(t *testing.T) {
	testenv.NeedRoot(t)
	conformance.Power(t, conformance.PowerRig{
		Restart:  func(t *testing.T, arg string) conformance.Ended { return endOf(t, "restart:"+arg) },
		PowerOff: func(t *testing.T) conformance.Ended { return endOf(t, "poweroff") },
		// Without what StartKernel looks for, the machine of the test is safe.
		StartKernel: func(t *testing.T) error { return startKernel(filepath.Join(t.TempDir(), "kexec_loaded")) },
		LoadKernel: func(t *testing.T) error {
			none := filepath.Join(t.TempDir(), "none")
			return Power{}.LoadKernel(none, none, "")
		},
	})
}

// endOf runs the named end in a PID namespace.
func endOf(t *testing.T, end string) conformance.Ended {
	t.Helper()
	out, err := self(end, unix.CLONE_NEWPID).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("%s = %v: %s", end, err, out)
	}
	switch status := exit.Sys().(syscall.WaitStatus); {
	case !status.Signaled():
		t.Errorf("%s returned: %s", end, out)
	case status.Signal() == unix.SIGHUP:
		return conformance.Restarted
	case status.Signal() == unix.SIGINT:
		return conformance.SwitchedOff
	}
	return conformance.Running
}

// powerChild is the init of a PID namespace.
func powerChild(end string) int {
	if os.Getpid() != 1 {
		// reboot(2) would reach the machine.
		fmt.Fprintln(os.Stderr, "no PID namespace of my own")
		return 1
	}
	var err error
	if arg, ok := strings.CutPrefix(end, "restart:"); ok {
		err = Power{}.Restart(arg)
	} else {
		err = Power{}.PowerOff()
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func TestRestartRefusesNUL(t *testing.T) {
	// With a zero byte inside the argument could not reach the firmware, and
	// a restart without it would not be a trial boot.
	if os.Getpid() == 1 {
		t.Fatal("this test must not run as PID 1")
	}
	if err := (Power{}).Restart("0 try\x00boot"); !errors.Is(err, unix.EINVAL) {
		t.Errorf("Restart with a zero byte = %v; want %v", err, unix.EINVAL)
	}
}

func TestCatchCtrlAltDel(t *testing.T) {
	testenv.NeedRoot(t)
	host := Host{ProcSys: "/proc/sys"}
	const key = "kernel.ctrl-alt-del" // 1: reset at once
	before, err := host.Sysctl(key)
	if errors.Is(err, hal.ErrNotFound) {
		t.Skip("the kernel has no kernel.ctrl-alt-del")
	}
	if err != nil {
		t.Fatal(err)
	}
	if !initialPIDNamespace(t) {
		t.Skip("in a PID namespace the kernel refuses to change Ctrl-Alt-Del")
	}
	defer func() {
		if err := host.SetSysctl(key, before); err != nil {
			t.Error(err)
		}
	}()
	if err := (Power{}).CatchCtrlAltDel(); err != nil {
		t.Fatal(err)
	}
	if got, _ := host.Sysctl(key); got != "0" {
		t.Errorf("%s = %q after CatchCtrlAltDel; want 0", key, got)
	}
}

// initialPIDNamespace follows include/linux/proc_ns.h: the inode number of the
// first PID namespace is fixed.
func initialPIDNamespace(t *testing.T) bool {
	t.Helper()
	const procPIDInitIno = 0xEFFFFFFC
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	return name == "pid:["+strconv.FormatUint(procPIDInitIno, 10)+"]"
}

func isNoDevice(err error) bool { return errors.Is(err, hal.ErrNoDevice) }
