//go:build linux

package main

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"machined/images/parts"
	"machined/tools/testenv"
)

// TestReproducible runs the steps that make something, twice: in directories of
// different names, with caches of their own and under different umasks.
func TestReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("builds everything twice; left out by -short")
	}
	testenv.Need(t, "mke2fs", "mksquashfs", "unsquashfs", "git", "zstd", "pkg-config", "dpkg", "x86_64-linux-gnu-gcc", "aarch64-linux-gnu-gcc")
	first := collectLocally(t, filepath.Join(t.TempDir(), "parts"), 0o022)
	second := collectLocally(t, filepath.Join(t.TempDir(), "a", "longer", "path", "parts"), 0o077)
	got, want := describe(second.index), describe(first.index)
	if len(got) != len(want) || len(first.index.Parts) != 81 {
		t.Fatalf("the steps made %d parts and %d in all, then %d; want 81, and the same twice", len(first.index.Parts), len(want), len(got))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("the second run gives %s; want %s", got[i], want[i])
		}
	}
	for _, kernel := range []string{"amd64", "arm64", "rpi"} {
		checkSystem(t, filepath.Join(first.store, "system", kernel))
	}
}

func collectLocally(t *testing.T, out string, umask int) *collector {
	t.Helper()
	defer syscall.Umask(syscall.Umask(umask))
	c, err := newCollector(out, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	packages(t, c.cache)
	for _, step := range []func() error{c.templates, c.programs, c.runtimes, c.firewalls, c.systems} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	c.index.Sort()
	return c
}

// packages gives a new cache the Debian packages of an earlier run, since what
// is under test is not the archive.
func packages(t *testing.T, cache string) {
	t.Helper()
	debs, err := filepath.Glob("../../build/cache/*/*.deb")
	if err != nil {
		t.Fatal(err)
	}
	for _, deb := range debs {
		if err := copyFile(deb, filepath.Join(cache, filepath.Base(filepath.Dir(deb)), filepath.Base(deb))); err != nil {
			t.Fatal(err)
		}
	}
}

func describe(x parts.Index) []string {
	var lines []string
	for _, p := range x.Parts {
		lines = append(lines, fmt.Sprint(p))
	}
	for _, c := range x.Components {
		lines = append(lines, fmt.Sprint(c))
	}
	return lines
}

// checkSystem looks at owners and modes in a squashfs.
func checkSystem(t *testing.T, image string) {
	t.Helper()
	out, err := exec.Command("unsquashfs", "-ll", image).CombinedOutput()
	if err != nil {
		t.Fatalf("unsquashfs: %v\n%s", err, out)
	}
	found := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 6 || !strings.HasPrefix(fields[5], "squashfs-root") {
			continue
		}
		found[strings.TrimPrefix(fields[5], "squashfs-root")] = fields[0] + " " + fields[1]
		mode := fields[0]
		if fields[1] != "root/root" || mode[0] != 'l' && (mode[5] == 'w' || mode[8] == 'w' || mode[7] != 'r') {
			t.Errorf("%s: %s", filepath.Base(image), line)
		}
	}
	for path, want := range map[string]string{
		"/sbin/machined":                    "-rwxr-xr-x root/root",
		"/usr/share/machined/small.ext4.gz": "-rw-r--r-- root/root",
		"/usr/share/machined/large.ext4.gz": "-rw-r--r-- root/root",
		"/usr/share/machined/pause.tar":     "-rw-r--r-- root/root",
		"/usr/bin/containerd":               "-rwxr-xr-x root/root",
		"/usr/bin/containerd-shim-runc-v2":  "-rwxr-xr-x root/root",
		"/usr/bin/runc":                     "-rwxr-xr-x root/root",
		"/usr/sbin/nft":                     "-rwxr-xr-x root/root",
		"/usr/lib/libc.so.6":                "-rw-r--r-- root/root",
		"/usr/lib/cni/cni":                  "-rwxr-xr-x root/root",
		"/usr/lib/cni/bridge":               "lrwxrwxrwx root/root",
		"/usr/lib/cni/host-local":           "lrwxrwxrwx root/root",
		"/usr/lib/cni/loopback":             "lrwxrwxrwx root/root",
		"/usr/lib/cni/portmap":              "lrwxrwxrwx root/root",
		"/etc/hosts":                        "-rw-r--r-- root/root",
		"/etc/resolv.conf":                  "lrwxrwxrwx root/root",
		"/system/state":                     "drwxr-xr-x root/root",
		"/dev":                              "drwxr-xr-x root/root",
	} {
		if found[path] != want {
			t.Errorf("%s: %s is %q; want %q", filepath.Base(image), path, found[path], want)
		}
	}
}
