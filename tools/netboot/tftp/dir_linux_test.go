package tftp

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// tree makes a directory to serve, beside a file that must not be.
func tree(t *testing.T) string {
	t.Helper()
	base := t.TempDir()
	for name, text := range map[string]string{"secret": "secret", "root/file": "here", "root/EFI/Boot/BOOTX64.EFI": "loader"} {
		name = filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root := filepath.Join(base, "root")
	for link, to := range map[string]string{"inside": "file", "outside": "../secret", "absolute": filepath.Join(base, "secret"), "up": ".."} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestDir(t *testing.T) {
	d, err := OpenDir(tree(t))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for name, want := range map[string]string{ // "" is none
		"file": "here", "/file": "here", "//file": "here", `\file`: "here", "./file": "here", "../file": "here", "../../root/file": "",
		`EFI\Boot\BOOTX64.EFI`: "loader", "/EFI/Boot/BOOTX64.EFI": "loader", "efi/boot/bootx64.efi": "",
		"inside": "here", "outside": "", "absolute": "", "up/secret": "", "../secret": "", `..\secret`: "", "EFI/../../secret": "",
		"": "", "/": "", ".": "", "EFI": "", "pipe": "", "file/": "here", "file\x00": "", "/etc/passwd": "", strings.Repeat("a", 300): "",
	} {
		c, err := d.Open(context.Background(), Client{}, name)
		if err != nil {
			if want != "" {
				t.Errorf("%q: %v; want %q", name, err, want)
			}
			continue
		}
		got := make([]byte, c.Size())
		if _, err := c.ReadAt(got, 0); err != nil || string(got) != want {
			t.Errorf("%q is %q, %v; want %q", name, got, err, want)
		}
		_ = c.Close()
	}
}

func TestDirCheck(t *testing.T) {
	d, err := OpenDir(tree(t))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Check("file", "EFI/Boot/BOOTX64.EFI"); err != nil {
		t.Error(err)
	}
	err = d.Check("file", "ipxe.efi", "outside")
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "ipxe.efi is offered and cannot be served") || !strings.Contains(err.Error(), "outside is offered") {
		t.Errorf("the error is %v; want both files", err)
	}
	if _, err := OpenDir("/nonexistent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenDir of nothing: %v", err)
	}
}
