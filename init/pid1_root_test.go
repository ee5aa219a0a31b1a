package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// becomeInit runs as PID 1 of fresh namespaces: it makes root its root with
// the mounts that stage 1 leaves, and executes machined.
func becomeInit(root string) error {
	runtime.LockOSThread() // a cgroup namespace and capabilities are a thread's
	if err := enterCgroup(); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := unix.Mount(root, root, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind the root: %w", err)
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	for dir, fsType := range map[string]string{"proc": "proc", "sys": "sysfs", "dev": "tmpfs", "run": "tmpfs"} {
		if err := unix.Mount(fsType, dir, fsType, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	if err := os.WriteFile("dev/null", nil, 0o666); err != nil {
		return err
	}
	if err := unix.Mount("/dev/null", "dev/null", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind /dev/null: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	if err := dropPowers(); err != nil {
		return err
	}
	env := append([]string{os.Getenv(extraVar)}, handover{WatchdogFD: -1, ListenerFD: -1, Board: "test", Slot: "A"}.environ()...)
	return unix.Exec(program, []string{program, stage2Arg}, env)
}

// extraVar is one more variable of machined's environment; the first one of a
// name counts.
const extraVar = "INIT_TEST_ENV"

// dropPowers takes what would reach the machine that runs the test, whatever
// machined does: its clock and its modules.
func dropPowers() error {
	for _, power := range []uintptr{unix.CAP_SYS_TIME, unix.CAP_SYS_MODULE} {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, power, 0, 0, 0); err != nil {
			return fmt.Errorf("drop capability %d: %w", power, err)
		}
	}
	return nil
}

// cgroupVar names the test's own cgroup, empty where there is no cgroup2.
const cgroupVar = "INIT_TEST_CGROUP"

// enterCgroup makes the test's cgroup the root of what machined sees of them.
func enterCgroup() error {
	if dir := os.Getenv(cgroupVar); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("enter the test's cgroup: %w", err)
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("make a cgroup namespace: %w", err)
	}
	return nil
}

// cgroupRoot returns where cgroup2 is mounted, or "".
func cgroupRoot() string {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if l := strings.Fields(lines.Text()); len(l) > 2 && l[2] == "cgroup2" {
			return l[1]
		}
	}
	return ""
}

// process is a line of a process table.
type process struct {
	pid, parent int // as the table's reader sees them
	name, state string
}

// processTable reads the table of the proc file system at dir.
func processTable(dir string) []process {
	stats, _ := filepath.Glob(filepath.Join(dir, "[0-9]*/stat"))
	var all []process
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended since
		}
		// proc_pid_stat(5): the name stands in parentheses.
		left, right, ok := strings.Cut(string(stat), " (")
		name, rest, ok2 := strings.Cut(right, ") ")
		f := strings.Fields(rest)
		if !ok || !ok2 || len(f) < 2 {
			continue
		}
		p := process{name: name, state: f[0]}
		p.pid, _ = strconv.Atoi(left)
		p.parent, _ = strconv.Atoi(f[1])
		all = append(all, p)
	}
	return all
}

// inputEvent is struct input_event of the kernel's include/uapi/linux/input.h.
type inputEvent struct {
	time       syscall.Timeval
	kind, code uint16
	value      uint32
}

func (e inputEvent) bytes() []byte {
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&e)), unsafe.Sizeof(e))...)
}
