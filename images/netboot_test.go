package images_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/u-root/u-root/pkg/cpio"

	"machined/board"
	"machined/images"
	"machined/images/netboot"
	"machined/images/parts"
)

// setPart gives a part of a fake store the contents, and makes it if need be.
func setPart(t *testing.T, store *parts.Store, name string, data []byte) {
	t.Helper()
	path := store.Path(name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
		t.Fatal(err)
	}
	sum, size, err := parts.Hash(path)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(store.Index.Parts, func(p parts.Part) bool { return p.Name == name })
	if i < 0 {
		store.Index.Parts = append(store.Index.Parts, parts.Part{Name: name, Component: "systemd-boot"})
		i = len(store.Index.Parts) - 1
	}
	store.Index.Parts[i].SHA256, store.Index.Parts[i].Size = sum, size
}

// netbootStore is a store whose kernels and stubs are PE files.
func netbootStore(t *testing.T) *parts.Store {
	t.Helper()
	store := fakeStore(t)
	for _, arch := range []string{"amd64", "arm64"} {
		setPart(t, store, "kernel/"+arch, append(fakePE("kernel of "+arch, 4096, 512), "\x04\x00\x00\x00"...))
		setPart(t, store, "stub/"+arch+".efi", append(fakePE("stub of "+arch, 512, 512), "\x04\x00\x00\x00"...))
	}
	for _, name := range []string{
		"dtb/bcm2710-rpi-3-b.dtb", "dtb/bcm2711-rpi-4-b.dtb", "firmware/start4.elf", "firmware/fixup4.dat", "firmware/start4cd.elf", "firmware/fixup4cd.dat",
	} {
		setPart(t, store, name, []byte(name))
	}
	return store
}

func buildNetboot(t *testing.T, dir string, b board.Board, store *parts.Store, config []byte) netboot.Board {
	t.Helper()
	built, err := images.BuildNetboot(dir, images.NetbootOptions{Board: b, Store: store, CA: []byte("the CA\n"), Config: config})
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// content returns the files below dir.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestNetboot builds all boards into one directory, twice, from stores of another
// age, and finds the same bytes; a server's reader finds all that the index names.
func TestNetboot(t *testing.T) {
	here, there := netbootStore(t), netbootStore(t)
	age(t, there)
	first, second := t.TempDir(), t.TempDir()
	for _, b := range board.Table() {
		buildNetboot(t, first, b, here, nil)
	}
	for _, b := range board.Table() {
		buildNetboot(t, second, b, there, nil)
		buildNetboot(t, second, b, there, nil) // over what is there
	}
	got, want := content(t, second), content(t, first)
	for path, text := range want {
		if got[path] != text {
			t.Errorf("%s differs between two builds", path)
		}
		if strings.HasSuffix(path, ".partial") || strings.HasSuffix(path, "disk.img") {
			t.Errorf("%s is left behind", path)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the builds have %d and %d files", len(want), len(got))
	}
	index, err := netboot.Load(first)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range board.Table() {
		x, ok := index.Boards[b.Name]
		if !ok || x.Arch != b.Arch || x.Version != fakeVersion || (x.UKI != nil) != (b.Firmware == board.UEFI) || (x.Tree != "") != (b.Name == "rpi-3a-plus") {
			t.Errorf("the index has %+v for %s", x, b.Name)
		}
	}
	for name, x := range index.Boards {
		// What gzip makes of the image depends on the version of Go.
		x.Image.Size, x.Image.SHA256 = 1, strings.Repeat("0", 64)
		index.Boards[name] = x
	}
	text, err := index.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "netboot.golden", string(text))
}

// checkGolden compares a text with the file of testdata.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s has changed; `go test ./images -update` writes it anew:\n%s", name, got)
	}
}

// TestNetbootInitramfs unpacks what is appended to the initramfs of a slot.
func TestNetbootInitramfs(t *testing.T) {
	for _, padding := range []int{0, 1, 2, 3} {
		store, dir := netbootStore(t), t.TempDir()
		base := bytes.Repeat([]byte{0x28}, 40+padding)
		setPart(t, store, "initramfs/amd64", base)
		setPart(t, store, "system/amd64", []byte("hsqs and an odd number of bytes"))
		config := []byte("machine: {}\n")
		buildNetboot(t, dir, boardNamed(t, "x86_64-uefi"), store, config)
		text, err := os.ReadFile(filepath.Join(dir, "x86_64-uefi/initramfs.img"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(text, base) || len(text)%4 != 0 {
			t.Fatalf("the initramfs has %d bytes and does not begin with the slot's", len(text))
		}
		archive := bytes.TrimLeft(text[len(base):], "\x00")
		if at := len(text) - len(archive); at%4 != 0 || at > len(base)+3 {
			t.Errorf("the archive begins at %d behind %d bytes; want the next multiple of 4", at, len(base))
		}
		records, err := cpio.ReadAllRecords(cpio.Newc.Reader(bytes.NewReader(archive)))
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		for _, r := range records {
			body, err := io.ReadAll(io.NewSectionReader(r.ReaderAt, 0, int64(r.FileSize)))
			if err != nil {
				t.Fatal(err)
			}
			got[r.Name] = string(body)
		}
		if got["system.squashfs"] != "hsqs and an odd number of bytes" || got["etc/machined/netboot-ca.crt"] != "the CA\n" || got["etc/machined/config.yaml"] != string(config) || len(got) != 5 {
			t.Errorf("the archive holds %q", got)
		}
		checkCPIO(t, archive)
	}
}

// checkCPIO has the real cpio list an archive.
func checkCPIO(t *testing.T, archive []byte) {
	t.Helper()
	cmd := exec.Command("cpio", "-t", "--quiet")
	cmd.Stdin = bytes.NewReader(archive)
	out, err := cmd.CombinedOutput()
	want := "system.squashfs\netc\netc/machined\netc/machined/netboot-ca.crt\netc/machined/config.yaml\n"
	if err != nil || string(out) != want {
		t.Errorf("cpio -t says %q, %v; want %q", out, err, want)
	}
}

// TestNetbootTree looks at what the Raspberry Pi's firmware is served.
func TestNetbootTree(t *testing.T) {
	store, dir := netbootStore(t), t.TempDir()
	built := buildNetboot(t, dir, boardNamed(t, "rpi-3a-plus"), store, nil)
	all := content(t, filepath.Join(dir, built.Tree))
	for _, name := range []string{
		"bootcode.bin", "start.elf", "fixup.dat", "start_cd.elf", "fixup_cd.dat", "kernel8.img", "initramfs.img", "overlays/disable-bt.dtbo",
		"bcm2710-rpi-3-b-plus.dtb", "bcm2837-rpi-3-a-plus.dtb", "bcm2710-rpi-3-b.dtb", "bcm2711-rpi-4-b.dtb", "start4cd.elf", "fixup4.dat", "LICENCE.broadcom", "licenses/linux-rpi/LICENSE",
	} {
		if all[name] == "" {
			t.Errorf("the tree has no %s", name)
		}
	}
	for _, name := range []string{"cmdline.txt", "system.squashfs"} {
		if _, ok := all[name]; ok {
			t.Errorf("the tree has %s", name)
		}
	}
	config := all["config.txt"]
	if strings.Contains(config, "os_prefix") || !strings.HasPrefix(config, "arm_64bit=1\nkernel=kernel8.img\ninitramfs initramfs.img followkernel\n") {
		t.Errorf("config.txt is %q; want no slot in it", config)
	}
	if !strings.Contains(built.Arguments, " machined.board=rpi-3a-plus") || strings.Contains(built.Arguments, "machined.slot=") {
		t.Errorf("the arguments are %q; want the board and no slot", built.Arguments)
	}
}

// TestNetbootKeepsOnError has what was built before stay whole.
func TestNetbootKeepsOnError(t *testing.T) {
	store, dir := netbootStore(t), t.TempDir()
	b := boardNamed(t, "x86_64-uefi")
	buildNetboot(t, dir, b, store, nil)
	before := content(t, dir)
	setPart(t, store, "stub/amd64.efi", []byte("no program"))
	_, err := images.BuildNetboot(dir, images.NetbootOptions{Board: b, Store: store, CA: []byte("the CA\n")})
	if err == nil || !strings.Contains(err.Error(), "the stub of systemd: it is no EFI program") {
		t.Errorf("BuildNetboot() = %v with a damaged stub; want to be told of it", err)
	}
	for path, text := range content(t, dir) {
		if before[path] != text {
			t.Errorf("%s has changed", path)
		}
	}
	if _, err := netboot.Load(dir); err != nil {
		t.Error(err)
	}
	setPart(t, store, "kernel/amd64", []byte("no kernel"))
	if _, err := images.BuildNetboot(t.TempDir(), images.NetbootOptions{Board: b, Store: store}); err == nil {
		t.Error("BuildNetboot() accepts a kernel that is no EFI program")
	}
	if err := os.WriteFile(filepath.Join(dir, netboot.IndexName), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := images.BuildNetboot(dir, images.NetbootOptions{Board: b, Store: store}); err == nil || !strings.Contains(err.Error(), netboot.IndexName) {
		t.Errorf("BuildNetboot() = %v with a damaged index; want to be told of it", err)
	}
}
