package bootfiles

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// piDirectory is a directory whose Pi has these files in place of its own, by their
// names and a space between.
func piDirectory(t *testing.T, config, files string) *Files {
	t.Helper()
	f := open(t)
	tree := filepath.Join(f.root.Name(), "rpi-3a-plus/tree")
	if err := os.RemoveAll(tree); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(files) {
		if err := os.WriteFile(filepath.Join(tree, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if config != "" {
		if err := os.WriteFile(filepath.Join(tree, piConfig), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// TestPiFiles says what is missing of a tree, by its config.txt.
func TestPiFiles(t *testing.T) {
	const own = "kernel=kernel8.img\ninitramfs initramfs.img followkernel\ngpu_mem=16\nkernel_address=0x80000\n"
	const pi3 = "bootcode.bin start.elf fixup.dat start_cd.elf fixup_cd.dat kernel8.img initramfs.img bcm2710-rpi-3-b-plus.dtb"
	const pi4 = " start4.elf fixup4.dat start4cd.elf fixup4cd.dat"
	without := func(all string, names ...string) string {
		return strings.Join(slices.DeleteFunc(strings.Fields(all), func(s string) bool { return slices.Contains(names, s) }), " ")
	}
	for _, c := range []struct{ config, files, missing string }{
		{own, pi3, ""},
		{own, pi3 + pi4, ""},
		{own, without(pi3+pi4, "start.elf", "fixup.dat", "start_cd.elf", "fixup_cd.dat"), ""},
		{"", pi3, "config.txt"},
		{own, without(pi3, "bootcode.bin"), "bootcode.bin"},
		{own, without(pi3, "start.elf"), "start.elf"},
		{own, without(pi3, "fixup_cd.dat"), "fixup_cd.dat"},
		{own, without(pi3, "start.elf", "fixup.dat", "start_cd.elf", "fixup_cd.dat"), "fixup.dat fixup_cd.dat start.elf start_cd.elf"},
		{own, without(pi3+pi4, "fixup4.dat"), "fixup4.dat"},
		{own, without(pi3, "kernel8.img", "initramfs.img"), "initramfs.img kernel8.img"},
		{own, without(pi3, "bcm2710-rpi-3-b-plus.dtb"), "bcm2710-rpi-3-b-plus.dtb"},
		{own + "device_tree=mine.dtb\n", pi3, "mine.dtb"},
		{own + "[pi4]\r\nkernel=vmlinuz\r\ninitramfs=a.gz,b.gz\r\n", pi3, "a.gz b.gz vmlinuz"},
		{"initramfs=\ninitramfs\nkernel=\n", without(pi3, "start_cd.elf", "fixup_cd.dat", "initramfs.img"), ""},
	} {
		f := piDirectory(t, c.config, c.files)
		var missing []string
		for _, name := range f.PiFiles("rpi-3a-plus/tree") {
			if f.Check("rpi-3a-plus/tree/"+name) != nil {
				missing = append(missing, name)
			}
		}
		if got := strings.Join(missing, " "); got != c.missing {
			t.Errorf("of %q with %q are missing %q; want %q", c.files, c.config, got, c.missing)
		}
	}
}

// TestPiNeeds: a file of either model's firmware that is not there stops a Pi, and
// what it only looks for does not.
func TestPiNeeds(t *testing.T) {
	f := piDirectory(t, "kernel=kernel8.img\ninitramfs initramfs.img followkernel\n", "start.elf")
	for name, want := range map[string]bool{
		"bootcode.bin": true, "b22faaeb/start.elf": true, "B22FAAEB/start4.elf": true, "b22faaeb/kernel8.img": true, "/b22faaeb/initramfs.img": true,
		"config.txt": true, "b22faaeb/autoboot.txt": false, "bootsig.bin": false, "b22faaeb/dt-blob.bin": false, "recovery.elf": false, "": false, "..": false,
	} {
		if got := f.PiNeeds(name); got != want {
			t.Errorf("PiNeeds(%q) = %v; want %v", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"b22faaeb/start.elf": "b22faaeb", "/B22FAAEB/start.elf": "b22faaeb", "start.elf": "", "b22faaeb": "", "x86_64-uefi/uki.efi": "", "": "",
	} {
		if got := f.Serial(name); got != want {
			t.Errorf("Serial(%q) = %q; want %q", name, got, want)
		}
	}
}

// TestBuiltAnew: a directory that was built while the server runs has its arguments'
// place elsewhere, and nothing there is written over.
func TestBuiltAnew(t *testing.T) {
	for what, change := range map[string]func([]byte) []byte{
		"longer":      func(b []byte) []byte { return append(b, "more"...) },
		"shorter":     func(b []byte) []byte { return b[:5100] },
		"moved":       func(b []byte) []byte { return append(append([]byte("x"), b[:len(b)-5]...), "rest"...) },
		"other bytes": func(b []byte) []byte { b[5006+100] = 0; return b },
	} {
		f := open(t)
		path := filepath.Join(f.root.Name(), "x86_64-uefi/uki.efi")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, change(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = f.Open(asks, "x86_64-uefi/uki.efi")
		if err == nil || errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "restart `machinectl netboot serve`") {
			t.Errorf("%s: Open = %v; want it to say that the server has to be restarted", what, err)
		}
	}
}
