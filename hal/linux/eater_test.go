package linux

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/u-root/u-root/pkg/cpio"
)

// TestEaterIsKilledFirst has services eat all the memory of a machine, on each
// kernel that machined ships: they are killed, with and without a limit of their
// own, and PID 1 and the runtime stay. Where the kernel has a controller for memory,
// their cgroups count it; that for x86-64 has none.
func TestEaterIsKilledFirst(t *testing.T) {
	if testing.Short() {
		t.Skip("starts machines under emulation")
	}
	for _, c := range []struct {
		kernel, arch, qemu, console string
		machine                     []string
		counts                      bool
	}{
		{"amd64", "amd64", "qemu-system-x86_64", "ttyS0", nil, false},
		{"arm64", "arm64", "qemu-system-aarch64", "ttyAMA0", []string{"-M", "virt", "-cpu", "cortex-a53"}, true},
		{"rpi", "arm64", "qemu-system-aarch64", "ttyAMA0", []string{"-M", "virt", "-cpu", "cortex-a53"}, true},
	} {
		t.Run(c.kernel, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, needTool(t, c.qemu), append(c.machine,
				"-accel", "tcg", "-m", "128", "-display", "none", "-serial", "stdio", "-no-reboot", "-net", "none",
				"-kernel", guestKernelOf(t, c.kernel), "-initrd", initramfs(t, "./testdata/eater", c.arch, cpio.CharDev("dev/null", 0o666, 1, 3)),
				"-append", "console="+c.console+" quiet panic=-1 cgroup_enable=memory")...).Output()
			if err != nil {
				t.Fatalf("the guest did not restart: %v\n%s", err, out)
			}
			checkEater(t, strings.ReplaceAll(string(out), "\r\n", "\n"), c.counts)
		})
	}
}

func checkEater(t *testing.T, console string, counts bool) {
	t.Helper()
	want := []string{
		"limited: the eater ended true by signal 9", "unlimited: the eater ended true by signal 9", "the runtime is there: true", "done",
	}
	if counts {
		want = append(want, "limited: counted true, <nil>", "unlimited: counted true, <nil>")
	} else {
		want = append(want, "has not: memory.max memory.oom.group")
	}
	for _, line := range want {
		if !strings.Contains(console, "GUEST "+line+"\n") {
			t.Errorf("the guest did not say %q", line)
		}
	}
	if t.Failed() {
		t.Logf("the guest's console:\n%s", console)
	}
}
