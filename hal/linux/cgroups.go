package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"machined/hal"
)

// Cgroups is the real hal.Cgroups, on the hierarchy that is mounted at Root.
type Cgroups struct{ Root string }

// Create implements hal.Cgroups.
func (c Cgroups) Create(path string, limits hal.CgroupLimits) (string, error) {
	if !strings.HasPrefix(path, "/") || path == "/" || filepath.Clean(path) != path {
		return "", fmt.Errorf("make cgroup %q: want a path below /: %w", path, hal.ErrInvalid)
	}
	if err := c.handDown(path); err != nil {
		return "", fmt.Errorf("make cgroup %s: %w", path, err)
	}
	var missing []string
	var failed error
	for _, s := range settings(limits) {
		written, err := c.set(path, s)
		if !written && err == nil {
			missing = append(missing, s.files[0])
		}
		failed = errors.Join(failed, err)
	}
	if failed != nil {
		failed = fmt.Errorf("limit cgroup %s: %w", path, failed)
	}
	return strings.Join(missing, " "), failed
}

// handDown makes the cgroups from the root to path, and hands the controllers
// down to it that the kernel has.
func (c Cgroups) handDown(path string) error {
	parent := c.Root
	for name := range strings.SplitSeq(path[1:], "/") {
		for _, controller := range []string{"memory", "cpu", "pids", "io"} {
			// One at a time: the file takes all of a list or nothing. What this
			// kernel has not is reported by the limits that need it.
			_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+controller), 0)
		}
		parent = filepath.Join(parent, name)
		if err := os.Mkdir(parent, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// setting is a value, and the file that takes it, which has another name in
// some kernels.
type setting struct {
	files []string
	value string
}

func settings(l hal.CgroupLimits) []setting {
	var out []setting
	add := func(set bool, value string, files ...string) {
		if set {
			out = append(out, setting{files: files, value: value})
		}
	}
	bytes := func(n int64) string { return strconv.FormatInt(n, 10) }
	add(l.MemoryMin > 0, bytes(l.MemoryMin), "memory.min")
	add(l.MemoryLow > 0, bytes(l.MemoryLow), "memory.low")
	add(l.MemoryHigh > 0, bytes(l.MemoryHigh), "memory.high")
	add(l.MemoryMax > 0, bytes(l.MemoryMax), "memory.max")
	add(l.CPUWeight > 0, strconv.Itoa(l.CPUWeight), "cpu.weight")
	add(l.CPUQuota > 0, fmt.Sprintf("%d %d", l.CPUQuota, l.CPUPeriod), "cpu.max")
	add(l.PIDsMax > 0, strconv.Itoa(l.PIDsMax), "pids.max")
	// The weight belongs to the io.cost policy or to the BFQ scheduler.
	add(l.IOWeight > 0, strconv.Itoa(l.IOWeight), "io.weight", "io.bfq.weight")
	if l.OOMGroup {
		out = append(out, setting{files: []string{"memory.oom.group"}, value: "1"})
	}
	return out
}

// set reports whether there was a file for the setting.
func (c Cgroups) set(path string, s setting) (written bool, err error) {
	for _, name := range s.files {
		// O_TRUNC and O_CREATE mean nothing here, and would hide a missing file.
		f, err := os.OpenFile(filepath.Join(c.Root, path, name), os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return true, err
		}
		_, err = f.WriteString(s.value)
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("%w (to %q)", err, s.value)
		}
		return true, err
	}
	return false, nil
}

// Enter implements hal.Cgroups.
func (c Cgroups) Enter(path string, pid int) error {
	return c.write(path, "cgroup.procs", strconv.Itoa(pid))
}

// killRounds bounds how often Kill looks for processes that are left.
const killRounds = 20

// Kill implements hal.Cgroups. It does without cgroup.kill: Linux 6.14 and later
// kill all that is ever cloned into a cgroup on which that was used from another
// one on which it was not (cgroup_css_set_fork takes kill_seq of the wrong one).
// A cgroup that is frozen makes no new processes meanwhile, and SIGKILL reaches
// frozen ones.
func (c Cgroups) Kill(path string) error {
	status, err := c.Status(path)
	if err != nil || !status.Populated {
		return err
	}
	_ = c.write(path, "cgroup.freeze", "1")
	defer func() { _ = c.write(path, "cgroup.freeze", "0") }()
	for range killRounds {
		found, err := c.killOnce(path)
		if err != nil || !found {
			return err
		}
		if status, err := c.Status(path); err != nil || !status.Populated {
			return err
		}
	}
	return nil // the rest is on its way, or waits for a device
}

// killOnce signals all processes in the cgroup and below, and reports whether
// there were any.
func (c Cgroups) killOnce(path string) (found bool, err error) {
	err = filepath.WalkDir(filepath.Join(c.Root, path), func(dir string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for line := range strings.Lines(string(procs)) {
			// 0 is a process of another PID namespace, and -0 would be our own group.
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 1 {
				found = true
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return found, nil // a cgroup below that went away
	}
	if err != nil {
		return found, fmt.Errorf("kill cgroup %s: %w", path, err)
	}
	return found, nil
}

func (c Cgroups) write(path, name, value string) error {
	f, err := os.OpenFile(filepath.Join(c.Root, path, name), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(value)
		err = errors.Join(err, f.Close())
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ESRCH) {
		err = fmt.Errorf("%w (%w)", hal.ErrNotFound, err)
	}
	if err != nil {
		return fmt.Errorf("write %s to %s of cgroup %s: %w", value, name, path, err)
	}
	return nil
}

// Status implements hal.Cgroups.
func (c Cgroups) Status(path string) (hal.CgroupStatus, error) {
	var out hal.CgroupStatus
	events, err := os.ReadFile(filepath.Join(c.Root, path, "cgroup.events"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		err = fmt.Errorf("%w (%w)", hal.ErrNotFound, err)
	}
	if err != nil {
		return out, fmt.Errorf("read cgroup %s: %w", path, err)
	}
	out.Populated = keyed(events, "populated") > 0
	// Absent without the controller.
	if events, err = os.ReadFile(filepath.Join(c.Root, path, "memory.events")); err == nil {
		out.OOMKills = keyed(events, "oom_kill")
	}
	if text, err := os.ReadFile(filepath.Join(c.Root, path, "memory.current")); err == nil {
		out.Memory, _ = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	}
	return out, nil
}

// keyed finds a line such as "oom_kill 3".
func keyed(text []byte, key string) uint64 {
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == key {
			n, _ := strconv.ParseUint(value, 10, 64)
			return n
		}
	}
	return 0
}

// Remove implements hal.Cgroups.
func (c Cgroups) Remove(path string) error {
	root := filepath.Join(c.Root, path)
	var dirs []string
	err := filepath.WalkDir(root, func(dir string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			dirs = append(dirs, dir)
		}
		return err
	})
	// Those below first.
	for i := len(dirs) - 1; i >= 0 && err == nil; i-- {
		err = unix.Rmdir(dirs[i])
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove cgroup %s: %w", path, err)
	}
	return nil
}

var _ hal.Cgroups = Cgroups{}
