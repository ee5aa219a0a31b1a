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

// TestInGuest grows a file system and uses a watchdog for real, to the reset.
// A build machine withholds the capability for the first (CAP_SYS_RESOURCE)
// and the device for the second.
func TestInGuest(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a machine under emulation")
	}
	image, blank := makeExt4(t, 16<<20), makeBlank(t, 64<<20)
	if err := os.Truncate(image, 32<<20); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, needTool(t, "qemu-system-x86_64"),
		"-accel", "tcg", "-m", "256", "-display", "none", "-serial", "stdio", "-no-reboot", "-net", "none", "-device", "i6300esb",
		"-kernel", guestKernel(t), "-initrd", guestInitramfs(t), "-append", "console=ttyS0 quiet panic=-1",
		"-drive", "if=virtio,format=raw,file="+image, "-drive", "if=virtio,format=raw,file="+blank).Output()
	if err != nil {
		t.Fatalf("the guest did not restart: %v\n%s", err, out)
	}
	console := strings.ReplaceAll(string(out), "\r\n", "\n")
	for _, want := range []string{
		"grow to 16777216: failed false, now 16777216",
		"grow to 25166336: failed false, now 25165824",
		"grow to 33554432: failed false, now 33554432\nGUEST grow to 33554432: failed false, now 33554432",
		"grow to 16777216: failed false, now 33554432", // one that is as large already is left alone
		"grow to 1099511627776: failed true, now 33554432",
		"partition 2 at 8388608: \"/dev/vdb2\", failed false\nGUEST partition 2 at 8388608: \"/dev/vdb2\", failed false",
		"partition 3 at 16777216: \"\", failed true",
		"partition 2 at 33554432: \"\", failed true",
		"done",
		"watchdog starts with 2 s: failed false\nGUEST is fed",
		"outlived the disarmed watchdog",
	} {
		if !strings.Contains(console, "GUEST "+want+"\n") {
			t.Errorf("the guest did not say %q", want)
		}
	}
	if strings.Contains(console, "GUEST is not reset") {
		t.Error("the watchdog did not reset a machine that does not feed it")
	}
	if t.Failed() {
		t.Logf("the guest's console:\n%s", console)
	}
	checkExt4(t, image)
}

// needTool returns the path of a program that has to be installed in CI.
func needTool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") != "true" {
		t.Skipf("%s is not installed", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// guestKernel returns the kernel that machined ships for x86-64.
func guestKernel(t *testing.T) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gokrazy/kernel.amd64").Output()
	if err != nil || len(bytes.TrimSpace(dir)) == 0 {
		t.Fatalf("find the kernel's module: %q, %v", dir, err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "vmlinuz")
}

// guestInitramfs packs testdata/guest as an initramfs.
func guestInitramfs(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "init")
	build := exec.Command("go", "build", "-o", program, "./testdata/guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
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
		cpio.Directory("dev", 0o755), cpio.CharDev("dev/console", 0o600, 5, 1), cpio.StaticFile("init", string(init), 0o755),
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
