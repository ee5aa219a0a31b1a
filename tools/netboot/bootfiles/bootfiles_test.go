package bootfiles

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"machined/images/netboot"
)

const token = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// directory makes a netboot directory with a PC and a Pi.
func directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	put := func(name, content string) netboot.File {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(content))
		return netboot.File{Path: name, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
	}
	x := netboot.Index{Format: netboot.Format, Boards: map[string]netboot.Board{
		"x86_64-uefi": {
			Version: "v1", Arch: "amd64", Arguments: "console=ttyS0 panic=10",
			UKI: &netboot.UKI{
				File:        put("x86_64-uefi/uki.efi", "MZ"+strings.Repeat("k", 5000)+"args"+strings.Repeat(" ", netboot.PlaceholderLength)+"rest"),
				Placeholder: netboot.Placeholder{Offset: 5006, Length: netboot.PlaceholderLength},
			},
			Kernel: put("x86_64-uefi/kernel", "kernel"), Initramfs: put("x86_64-uefi/initramfs.img", "initramfs"),
			Image: netboot.Disk{File: put("x86_64-uefi/disk.img.gz", "disk"), DiskSize: 9},
		},
		"rpi-3a-plus": {
			Version: "v1", Arch: "arm64", Arguments: "console=ttyAMA0", Tree: "rpi-3a-plus/tree",
			Kernel: put("rpi-3a-plus/tree/kernel8.img", "pi kernel"), Initramfs: put("rpi-3a-plus/tree/initramfs.img", "pi initramfs"),
			Image: netboot.Disk{File: put("rpi-3a-plus/disk.img.gz", "disk"), DiskSize: 9},
		},
	}}
	put("rpi-3a-plus/tree/bootcode.bin", "bootcode")
	put("rpi-3a-plus/tree/overlays/x.dtbo", "overlay")
	put("pki/ca.key", "secret")
	put("state/boards.json", "secret")
	put("configs/default.yaml", "secret")
	text, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	put(netboot.IndexName, string(text))
	return dir
}

func open(t *testing.T) *Files {
	t.Helper()
	f, err := Open(directory(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	f.Token = func(netip.Addr) (string, error) { return token, nil }
	f.Board = func(netip.Addr) string { return "x86_64-uefi" }
	f.NodePort, f.HTTPPort = 8443, 8080
	return f
}

var asks = Asks{Client: netip.MustParseAddr("10.0.0.9"), Server: netip.MustParseAddr("10.0.0.1")}

const told = "machined.netboot=https://10.0.0.1:8443 machined.token=" + token

func TestOpen(t *testing.T) {
	f := open(t)
	for _, c := range []struct{ name, want string }{
		{"x86_64-uefi/kernel", "kernel"},
		{`\x86_64-uefi\initramfs.img`, "initramfs"},
		{"//x86_64-uefi/./kernel", "kernel"},
		{"bootcode.bin", "bootcode"},
		{"12345678/bootcode.bin", "bootcode"},
		{"AbCdEf01/overlays/x.dtbo", "overlay"},
		{"12345678/cmdline.txt", "console=ttyAMA0 " + told + "\n"},
		{"boot.ipxe", "#!ipxe\nkernel http://10.0.0.1:8080/x86_64-uefi/kernel initrd=initramfs.img console=ttyS0 panic=10 machined.board=x86_64-uefi " + told +
			"\ninitrd --name initramfs.img http://10.0.0.1:8080/x86_64-uefi/initramfs.img\nboot\n"},
		{"x86_64-uefi/uki.efi", "MZ" + strings.Repeat("k", 5000) + "args " + told + strings.Repeat(" ", netboot.PlaceholderLength-1-len(told)) + "rest"},
	} {
		content, err := f.Open(asks, c.name)
		if err != nil {
			t.Errorf("Open(%q): %v", c.name, err)
			continue
		}
		got, err := io.ReadAll(io.NewSectionReader(content, 0, content.Size()))
		if err != nil || string(got) != c.want {
			t.Errorf("Open(%q) has %q, %v; want %q", c.name, got, err, c.want)
		}
		if err := content.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNothingElse: what is not for boards cannot be had by any name.
func TestNothingElse(t *testing.T) {
	f := open(t)
	if err := os.Symlink("/etc/passwd", filepath.Join(f.root.Name(), "rpi-3a-plus/tree/link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"", "/", ".", "..", "../../etc/passwd", "netboot.json", "pki/ca.key", "x86_64-uefi/../pki/ca.key", "state/boards.json", "configs/default.yaml",
		"x86_64-uefi/disk.img.gz", "x86_64-uefi", "x86_64-uefi/nothing", "rpi-3a-plus/tree/kernel8.img/..", "link", "overlays", "12345678", "12345678/",
		"12345678/../pki/ca.key", `..\..\etc\passwd`, "bootcode.bin\x00", "ipxe/nothing", strings.Repeat("a", 5000),
	} {
		content, err := f.Open(asks, name)
		if err == nil {
			t.Errorf("Open(%q) has %d bytes; want nothing", name, content.Size())
		}
	}
}

// TestPatchedPieces: wherever a transfer's blocks begin and end, the same comes out.
func TestPatchedPieces(t *testing.T) {
	f := open(t)
	c, err := f.Open(asks, "x86_64-uefi/uki.efi")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	whole := make([]byte, c.Size())
	if _, err := c.ReadAt(whole, 0); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	for _, size := range []int{1, 7, 512, 1428, 5007, 8192} {
		var got []byte
		for off := int64(0); off < c.Size(); off += int64(size) {
			b := make([]byte, size)
			n, err := c.ReadAt(b, off)
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			got = append(got, b[:n]...)
		}
		if string(got) != string(whole) {
			t.Errorf("in pieces of %d bytes it is another file", size)
		}
	}
}

// TestFaults: what a board cannot be given is said, and what a directory lacks too.
func TestFaults(t *testing.T) {
	f := open(t)
	f.Token = func(netip.Addr) (string, error) { return "", errors.New("the disk is full") }
	for _, name := range []string{"boot.ipxe", "x86_64-uefi/uki.efi", "cmdline.txt"} {
		if _, err := f.Open(asks, name); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Open(%q) without a token = %v; want its error", name, err)
		}
	}
	f.Board = func(netip.Addr) string { return "" }
	if _, err := f.Open(asks, "boot.ipxe"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the script of an unknown board = %v; want %v", err, fs.ErrNotExist)
	}
	f = open(t)
	f.Token = func(netip.Addr) (string, error) { return strings.Repeat("x", netboot.PlaceholderLength), nil }
	if _, err := f.Open(asks, "x86_64-uefi/uki.efi"); err == nil {
		t.Error("a token that does not fit was written over what follows")
	}
	dir := directory(t)
	if err := os.Remove(filepath.Join(dir, "x86_64-uefi/kernel")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "x86_64-uefi/kernel") {
		t.Errorf("Open of a directory without its kernel = %v; want it named", err)
	}
}
