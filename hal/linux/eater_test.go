package linux

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
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
				"-kernel", guestKernelOf(t, c.kernel), "-initrd", eaterInitramfs(t, c.arch),
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

// eaterInitramfs packs testdata/eater as an initramfs.
func eaterInitramfs(t *testing.T, arch string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "init")
	build := exec.Command("go", "build", "-o", program, "./testdata/eater")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the guest's init: %v\n%s", err, out)
	}
	init, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	w := cpio.Newc.Writer(&archive)
	err = cpio.WriteRecords(w, []cpio.Record{
		cpio.Directory("dev", 0o755), cpio.CharDev("dev/console", 0o600, 5, 1), cpio.CharDev("dev/null", 0o666, 1, 3),
		cpio.StaticFile("init", string(init), 0o755),
	})
	if err == nil {
		err = cpio.WriteTrailer(w)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, archive.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return program
}
