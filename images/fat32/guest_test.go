package fat32

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/u-root/u-root/pkg/cpio"
)

// A build machine's own kernel may lack vfat, so the kernel that machined
// ships for x86-64 reads the volumes too, in QEMU.
func TestKernelInGuest(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a machine under emulation")
	}
	qemu := tool(t, "qemu-system-x86_64")
	kernelDir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gokrazy/kernel.amd64").Output()
	if err != nil || len(bytes.TrimSpace(kernelDir)) == 0 {
		t.Skipf("the module with the kernel is not there: %v", err)
	}
	trees := []want{smallWant(), randomTree(100), randomTree(101)}
	args := []string{
		"-accel", "tcg", "-m", "256", "-display", "none", "-serial", "stdio", "-no-reboot", "-net", "none",
		"-kernel", filepath.Join(strings.TrimSpace(string(kernelDir)), "vmlinuz"),
		"-initrd", guestInitramfs(t), "-append", "console=ttyS0 quiet panic=-1",
	}
	for _, tree := range trees {
		args = append(args, "-drive", "if=virtio,format=raw,readonly=on,file="+makeVolume(t, 64*mib, tree))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, qemu, args...).Output()
	console := strings.ReplaceAll(string(out), "\r\n", "\n")
	if err != nil || !strings.Contains(console, "GUEST done\n") {
		t.Fatalf("the guest did not finish: %v\n%s", err, console)
	}
	for i, tree := range trees {
		disk := "GUEST vd" + string(rune('a'+i)) + " "
		if got := strings.Count(console, disk); got != len(tree) {
			t.Errorf("the kernel sees %d files on volume %d; want %d", got, i, len(tree))
		}
		for path, data := range tree {
			if line := fmt.Sprintf("%s%x %q\n", disk, sha256.Sum256(data), path); !strings.Contains(console, line) {
				t.Errorf("the guest did not say %q", line)
			}
		}
	}
}

// guestInitramfs packs testdata/guest as the init of an initramfs.
func guestInitramfs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "init")
	build := exec.Command("go", "build", "-o", program, "./testdata/guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the guest's init: %v\n%s", err, out)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	w := cpio.Newc.Writer(&archive)
	records := []cpio.Record{cpio.Directory("dev", 0o755), cpio.CharDev("dev/console", 0o600, 5, 1), cpio.StaticFile("init", string(data), 0o755)}
	if err := cpio.WriteRecords(w, records); err != nil {
		t.Fatal(err)
	}
	if err := cpio.WriteTrailer(w); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "initramfs")
	if err := os.WriteFile(name, archive.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
