package linux

import (
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/u-root/u-root/pkg/cpio"

	"machined/tools/parts/ext4"
	"machined/tools/testenv"
)

// TestInGuest grows a file system, makes volumes on a blank disk, and uses a
// watchdog for real, to the reset. A build machine withholds the capability
// for the first (CAP_SYS_RESOURCE) and the device for the last.
func TestInGuest(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a machine under emulation")
	}
	image, blank, volumes := makeExt4(t, 16<<20), makeBlank(t, 64<<20), makeBlank(t, 600<<20)
	if err := os.Truncate(image, 32<<20); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, needTool(t, "qemu-system-x86_64"),
		"-accel", "tcg", "-m", "256", "-display", "none", "-serial", "stdio", "-no-reboot", "-net", "none", "-device", "i6300esb",
		"-kernel", guestKernel(t), "-initrd", guestInitramfs(t), "-append", "console=ttyS0 quiet panic=-1",
		"-drive", "if=virtio,format=raw,file="+image, "-drive", "if=virtio,format=raw,file="+blank,
		"-drive", "if=virtio,format=raw,file="+volumes).Output()
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
		"found vdc", "found vdc1", "found vdc2",
		"uses STATE: partition 1 has 16777216 bytes, and its ext4 true",
		"uses EPHEMERAL: partition 2 has 610271232 bytes, and its ext4 true",
		"wipes what is mounted: failed true",
		"provisions again: failed false",
		"provisions a partition: refused true",
		"wiped: the old partition is gone true",
		"uses DATA: partition 1 has 627048448 bytes, and its ext4 true",
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
	checkVolumes(t, volumes)
}

// checkVolumes has the real tools judge the disk that the guest made volumes
// on, and looks for its file in the last of them.
func checkVolumes(t *testing.T, image string) {
	t.Helper()
	if out, err := exec.Command(needTool(t, "sgdisk"), "-v", image).CombinedOutput(); err != nil || !strings.Contains(string(out), "No problems found") {
		t.Errorf("sgdisk -v: %v\n%s", err, out)
	}
	disk, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(t.TempDir(), "part")
	if err := os.WriteFile(part, disk[1<<20:len(disk)-1<<20], 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(needTool(t, "e2fsck"), "-p", part).CombinedOutput(); err != nil { // it was mounted to the end
		t.Logf("e2fsck -p: %v\n%s", err, out)
	}
	checkExt4(t, part)
	if out, err := exec.Command(needTool(t, "debugfs"), "-R", "cat /a/file", part).Output(); err != nil || string(out) != "written in the guest" {
		t.Errorf("the guest's file holds %q, %v", out, err)
	}
}

// needTool returns the name of a program that has to be installed in CI.
func needTool(t *testing.T, name string) string {
	t.Helper()
	testenv.Need(t, name)
	return name
}

// guestKernel returns the kernel that machined ships for x86-64.
func guestKernel(t *testing.T) string { return guestKernelOf(t, "amd64") }

// guestKernelOf returns one of the kernels that machined ships.
func guestKernelOf(t *testing.T, name string) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gokrazy/kernel."+name).Output()
	if err != nil || len(bytes.TrimSpace(dir)) == 0 {
		t.Fatalf("find the kernel's module: %q, %v", dir, err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "vmlinuz")
}

// guestInitramfs packs testdata/guest as an initramfs.
func guestInitramfs(t *testing.T) string {
	t.Helper()
	return initramfs(t, "./testdata/guest", "amd64", append([]cpio.Record{cpio.Directory("templates", 0o755)}, guestTemplates(t)...)...)
}

// initramfs packs a program as /init, with more files beside it.
func initramfs(t *testing.T, pkg, arch string, more ...cpio.Record) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "init")
	build := exec.Command("go", "build", "-o", program, pkg)
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
	records := append([]cpio.Record{cpio.Directory("dev", 0o755), cpio.CharDev("dev/console", 0o600, 5, 1)}, more...)
	err = cpio.WriteRecords(w, append(records, cpio.StaticFile("init", string(init), 0o755)))
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

// guestTemplates makes the file systems that volumes start from.
func guestTemplates(t *testing.T) []cpio.Record {
	t.Helper()
	var records []cpio.Record
	for _, template := range ext4.Templates() {
		path := filepath.Join(t.TempDir(), "image")
		err := template.Make(path, 1_790_000_000, func(_ []string, name string, args ...string) error {
			return exec.Command(needTool(t, name), args...).Run()
		})
		if err != nil {
			t.Fatal(err)
		}
		image, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(image)
		_ = z.Close()
		records = append(records, cpio.StaticFile("templates/"+template.Name, b.String(), 0o644))
	}
	return records
}
