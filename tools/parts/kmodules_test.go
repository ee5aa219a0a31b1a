package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// writeTree makes files below dir.
func writeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		files[filepath.ToSlash(rel)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// kernelModules is what a kernel of two kept drivers and two others has.
func kernelModules() map[string]string {
	return map[string]string{
		"6.1.0/kernel/net/wifi-core.ko":         "core",
		"6.1.0/kernel/net/wifi.ko":              "wifi",
		"6.1.0/kernel/drivers/media/tuner.ko":   "tuner",
		"6.1.0/kernel/drivers/media/dvb/dvb.ko": "dvb",
		"6.1.0/modules.dep":                     "kernel/net/wifi-core.ko:\nkernel/net/wifi.ko: kernel/net/wifi-core.ko\nkernel/drivers/media/tuner.ko: kernel/net/wifi-core.ko\nkernel/drivers/media/dvb/dvb.ko:\n",
		"6.1.0/modules.alias":                   "# Aliases extracted from modules themselves.\nalias usb:v1* wifi\nalias usb:v2* tuner\nalias net-core wifi_core\nalias usb:v3* dvb\n",
		"6.1.0/modules.builtin":                 "kernel/fs/ext4/ext4.ko\n",
		"6.1.0/modules.dep.bin":                 "\x00",
		"6.1.0/modules.symbols":                 "symbols",
	}
}

// TestCopyModules leaves out drivers, and what names them in the indexes.
func TestCopyModules(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "modules")
	writeTree(t, from, kernelModules())
	if err := copyModules(from, to); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"6.1.0/kernel/net/wifi-core.ko": "core",
		"6.1.0/kernel/net/wifi.ko":      "wifi",
		"6.1.0/modules.dep":             "kernel/net/wifi-core.ko:\nkernel/net/wifi.ko: kernel/net/wifi-core.ko\n",
		"6.1.0/modules.alias":           "# Aliases extracted from modules themselves.\nalias usb:v1* wifi\nalias net-core wifi_core\n",
		"6.1.0/modules.builtin":         "kernel/fs/ext4/ext4.ko\n",
	}
	got := readTree(t, to)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%s = %q; want %q", name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("copied %q; want %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

func TestCopyModulesFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		edit  func(files map[string]string)
		says  string
		wants bool // no error
	}{
		{"a driver that needs one that is left out", func(f map[string]string) {
			f["6.1.0/modules.dep"] = "kernel/net/wifi.ko: kernel/drivers/media/tuner.ko\n"
		}, "kernel 6.1.0: modules.dep: kernel/net/wifi.ko needs kernel/drivers/media/tuner.ko", false},
		{"no index", func(f map[string]string) { delete(f, "6.1.0/modules.alias") }, "modules.alias", false},
		{"the last line unfinished", func(f map[string]string) { f["6.1.0/modules.alias"] = "alias usb:v1* wifi" }, "", true},
	} {
		from := t.TempDir()
		files := kernelModules()
		c.edit(files)
		writeTree(t, from, files)
		err := copyModules(from, filepath.Join(t.TempDir(), "modules"))
		if c.wants != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("copyModules(%s) = %v; want %q", c.name, err, c.says)
		}
	}
	if err := copyModules(filepath.Join(t.TempDir(), "none"), t.TempDir()); err != nil {
		t.Errorf("copyModules() = %v for a kernel without modules; want nil", err)
	}
}
