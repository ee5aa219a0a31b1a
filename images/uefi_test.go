package images_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"machined/board"
)

// TestUEFI finds what the firmware and systemd-boot look for, and follows each
// entry to the files that it names.
func TestUEFI(t *testing.T) {
	store := fakeStore(t)
	forEachBoard(t, func(t *testing.T, b board.Board) {
		if b.Firmware != board.UEFI {
			t.Skip("the firmware reads config.txt")
		}
		v, _ := volume(t, build(t, fakeOptions(b, store)).Path)
		// The path of removable media (UEFI specification 3.5.1.1).
		program := map[string]string{"amd64": "EFI/BOOT/BOOTX64.EFI", "arm64": "EFI/BOOT/BOOTAA64.EFI"}[b.Arch]
		want, err := os.ReadFile(store.Path("loader/" + b.Arch + ".efi"))
		if err != nil {
			t.Fatal(err)
		}
		if got := readFile(t, v, program); got != string(want) {
			t.Errorf("%s has %d bytes; want systemd-boot, %d bytes", program, len(got), len(want))
		}
		conf := parseConf(t, v, "loader/loader.conf")
		if conf["timeout"] != "0" || conf["editor"] != "no" || conf["default"] != "machined-*" {
			t.Errorf("loader.conf = %v; want the first entry of machined at once, and no editing of the command line", conf)
		}
		for _, slot := range []string{"A", "B"} {
			entry := parseConf(t, v, "loader/entries/machined-"+strings.ToLower(slot)+".conf")
			for key, path := range map[string]string{"linux": "/" + slot + "/linux.efi", "initrd": "/" + slot + "/initramfs.img"} {
				if entry[key] != path {
					t.Errorf("the entry of slot %s has %s %s; want %s", slot, key, entry[key], path)
				}
				if _, err := fs.Stat(v, strings.TrimPrefix(entry[key], "/")); err != nil {
					t.Errorf("the entry of slot %s: %v", slot, err)
				}
			}
			if line := strings.TrimSpace(readFile(t, v, slot+"/cmdline.txt")); entry["options"] != line {
				t.Errorf("the entry of slot %s has the options %q; want the slot's, %q", slot, entry["options"], line)
			}
			if entry["version"] != fakeVersion || entry["sort-key"] != map[string]string{"A": "machined-99999998", "B": "machined-99999999"}[slot] || !strings.Contains(entry["title"], slot) {
				t.Errorf("the entry of slot %s is %v", slot, entry)
			}
		}
	})
}

// parseConf reads a file of systemd-boot: a key and its value a line.
func parseConf(t *testing.T, v fs.FS, name string) map[string]string {
	t.Helper()
	conf := make(map[string]string)
	for line := range strings.Lines(readFile(t, v, name)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, twice := conf[key]; twice || value == "" {
			t.Errorf("%s has the line %q; want each key once, with a value", name, line)
		}
		conf[key] = value
	}
	return conf
}
