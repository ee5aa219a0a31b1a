package netboot

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var sum = strings.Repeat("ab", 32)

// example is an index of a UEFI board and a Pi, of files with 10 bytes.
func example() Index {
	file := func(path string) File { return File{Path: path, Size: 10, SHA256: sum} }
	return Index{Format: Format, Boards: map[string]Board{
		"x86_64-uefi": {
			Version: "v1", Arch: "amd64", UKI: &UKI{File: file("x/uki.efi"), Placeholder: Placeholder{Offset: 2, Length: 8}},
			Kernel: file("x/kernel"), Initramfs: file("x/initramfs.img"), Arguments: "console=ttyS0", Image: Disk{File: file("x/disk.img.gz"), DiskSize: 100},
		},
		"rpi-3a-plus": {
			Version: "v1", Arch: "arm64", Kernel: file("pi/kernel8.img"), Initramfs: file("pi/initramfs.img"), Tree: "pi",
			Image: Disk{File: file("pi/disk.img.gz"), DiskSize: 100},
		},
	}}
}

// write makes the directory of an index.
func write(t *testing.T, x Index) string {
	t.Helper()
	dir := t.TempDir()
	for _, b := range x.Boards {
		for _, f := range b.files() {
			path := filepath.Join(dir, f.Path)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, make([]byte, f.Size), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	text, err := x.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, IndexName), text, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestLoad(t *testing.T) {
	want := example()
	got, err := Load(write(t, want))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := got.Bytes()
	b, _ := want.Bytes()
	if !bytes.Equal(a, b) {
		t.Errorf("Load() = %s; want %s", a, b)
	}
	if _, err := Load(t.TempDir()); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "machinectl netboot build") {
		t.Errorf("Load() of an empty directory = %v; want to be told what makes one", err)
	}
}

// TestLoadFaults breaks a directory in several ways, all of which have to be in
// the error.
func TestLoadFaults(t *testing.T) {
	dir := write(t, example())
	outside := filepath.Join(t.TempDir(), "kernel")
	err := errors.Join(
		os.Remove(filepath.Join(dir, "x/uki.efi")),
		os.WriteFile(filepath.Join(dir, "x/initramfs.img"), []byte("short"), 0o644),
		os.Remove(filepath.Join(dir, "x/disk.img.gz")), os.Mkdir(filepath.Join(dir, "x/disk.img.gz"), 0o755),
		os.WriteFile(outside, make([]byte, 10), 0o644), os.Remove(filepath.Join(dir, "x/kernel")), os.Symlink(outside, filepath.Join(dir, "x/kernel")),
		os.RemoveAll(filepath.Join(dir, "pi")),
	)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Load(dir)
	for _, want := range []string{
		"uki of board x86_64-uefi", "x/initramfs.img has 5 bytes, and the index says 10", "x/disk.img.gz is no file", "kernel of board x86_64-uefi",
		"kernel of board rpi-3a-plus", "tree of board rpi-3a-plus",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load() = %v; want %q in it", err, want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		says string
		edit func(*Index, *Board)
	}{
		{"", func(*Index, *Board) {}},
		{"it has the format 2, and this program reads 1", func(x *Index, _ *Board) { x.Format = 2 }},
		{`version "" and arch`, func(_ *Index, b *Board) { b.Version = "" }},
		{`arch "mips"`, func(_ *Index, b *Board) { b.Arch = "mips" }},
		{`kernel: "../kernel" is no path`, func(_ *Index, b *Board) { b.Kernel.Path = "../kernel" }},
		{`kernel: "/kernel" is no path`, func(_ *Index, b *Board) { b.Kernel.Path = "/kernel" }},
		{`kernel: "a\\b" is no path`, func(_ *Index, b *Board) { b.Kernel.Path = `a\b` }},
		{"x/kernel has the size 0", func(_ *Index, b *Board) { b.Kernel.Size = 0 }},
		{"want 64 hex digits", func(_ *Index, b *Board) { b.Image.SHA256 = "ab" }},
		{"disk_size is -1", func(_ *Index, b *Board) { b.Image.DiskSize = -1 }},
		{"the placeholder, 9 bytes at 2, is not within", func(_ *Index, b *Board) { b.UKI.Placeholder.Length = 9 }},
		{"the placeholder", func(_ *Index, b *Board) { b.UKI.Placeholder.Offset = 1<<63 - 1 }},
		{`tree: "." is no path`, func(_ *Index, b *Board) { b.Tree = "." }},
		{"no line of printable ASCII", func(_ *Index, b *Board) { b.Arguments = "a\nb" }},
	} {
		x := example()
		b := x.Boards["x86_64-uefi"]
		c.edit(&x, &b)
		x.Boards["x86_64-uefi"] = b
		_, err := x.Bytes()
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("Bytes() = %v; want %q", err, c.says)
		}
	}
	for text, says := range map[string]string{
		`{"format":1,"bords":{}}`: "bords", `{"format":1} x`: "something follows", `[]`: "cannot unmarshal", "": "EOF",
		strings.Repeat(" ", maxIndex+1): "more than",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Parse(%.30q) = %v; want %q", text, err, says)
		}
	}
}

// FuzzLoad reads indexes of a directory with nothing else in it: what is accepted
// names no file outside, and reads back as it is written.
func FuzzLoad(f *testing.F) {
	text, err := example().Bytes()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"format":1,"boards":{}}`))
	f.Add([]byte(`{"format":1,"boards":{"a":{"uki":{"size":-1}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, IndexName), text, 0o644); err != nil {
			t.Fatal(err)
		}
		if x, err := Load(dir); err == nil && len(x.Boards) > 0 {
			t.Fatalf("Load() = %+v; want the missing files", x)
		}
		x, err := Parse(text)
		if err != nil {
			return
		}
		for name, b := range x.Boards {
			for _, file := range b.files() {
				if !filepath.IsLocal(file.Path) {
					t.Fatalf("%s has %q", name, file.Path)
				}
			}
		}
		again, err := x.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		y, err := Parse(again)
		if third, _ := y.Bytes(); err != nil || !bytes.Equal(third, again) {
			t.Fatalf("%s reads back as %s, %v", again, third, err)
		}
	})
}
