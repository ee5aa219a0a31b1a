package linux

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"machined/hal"
	"machined/hal/conformance"
	"machined/tools/testenv"
)

// cgroupRoot is where the tests mount a hierarchy of their own.
const cgroupRoot = "/tmp/machined-test-cgroup2"

// mountCgroups mounts the machine's hierarchy of cgroups v2, or skips the test.
// Controllers that a hierarchy of version 1 holds are not in it.
func mountCgroups(t *testing.T) (c Cgroups, base string) {
	t.Helper()
	testenv.NeedRoot(t)
	if err := os.MkdirAll(cgroupRoot, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("cgroup2", cgroupRoot, "cgroup2", 0, ""); err != nil {
		t.Skipf("cgroups v2 cannot be mounted here: %v", err)
	}
	base, err := os.MkdirTemp(cgroupRoot, "machined-test-")
	if err != nil {
		t.Fatal(err)
	}
	c = Cgroups{Root: cgroupRoot}
	base = "/" + filepath.Base(base)
	t.Cleanup(func() {
		_ = c.Kill(base)
		waitFor(t, "the cgroup to be removed", func() bool { return c.Remove(base) == nil })
		_ = unix.Unmount(cgroupRoot, 0)
		_ = os.Remove(cgroupRoot)
	})
	return c, base
}

func TestCgroups(t *testing.T) {
	conformance.Cgroups(t, func(t *testing.T) conformance.CgroupsRig {
		c, base := mountCgroups(t)
		return conformance.CgroupsRig{
			Cgroups: c, Base: base, Processes: newProcesses(t), Sleep: []string{"/bin/sleep", "1000"},
			Advance: func() { time.Sleep(10 * time.Millisecond) },
		}
	})
}

// TestCgroupLimits sets all limits. What this kernel has not is named, and what
// it has is in its file.
func TestCgroupLimits(t *testing.T) {
	c, base := mountCgroups(t)
	path := base + "/limited"
	limits := hal.CgroupLimits{
		MemoryMax: 64 << 20, MemoryHigh: 48 << 20, MemoryMin: 4 << 20, MemoryLow: 8 << 20, OOMGroup: true,
		CPUWeight: 50, CPUQuota: 20000, CPUPeriod: 100000, PIDsMax: 100, IOWeight: 200,
	}
	missing, err := c.Create(path, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("this kernel has not: %q", missing)
	for file, want := range map[string]string{
		"memory.max": "67108864", "memory.high": "50331648", "memory.min": "4194304", "memory.low": "8388608", "memory.oom.group": "1",
		"cpu.weight": "50", "cpu.max": "20000 100000", "pids.max": "100",
	} {
		got, err := os.ReadFile(filepath.Join(c.Root, path, file))
		switch {
		case slices.Contains(strings.Fields(missing), file):
			if err == nil {
				t.Errorf("%s is called missing and is there", file)
			}
		case err != nil || strings.TrimSpace(string(got)) != want:
			t.Errorf("%s is %q, %v; want %q", file, got, err, want)
		}
	}
}
