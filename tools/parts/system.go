package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/u-root/u-root/pkg/cpio"

	"machined/tools/parts/ext4"
)

// systems makes, for each kernel, the initramfs (machined alone) and the
// squashfs that a slot runs from.
func (c *collector) systems() error {
	for _, s := range []struct{ kernel, arch, module string }{
		{"amd64", "amd64", "github.com/gokrazy/kernel.amd64"},
		{"arm64", "arm64", "github.com/gokrazy/kernel.arm64"},
		{"rpi", "arm64", "github.com/gokrazy/kernel.rpi"},
	} {
		dir, _, err := c.module(s.module)
		if err != nil {
			return err
		}
		if err := c.squashfs(s.kernel, s.arch, filepath.Join(dir, "lib", "modules")); err != nil {
			return err
		}
	}
	for _, arch := range []string{"amd64", "arm64"} {
		if err := c.initramfs(arch); err != nil {
			return err
		}
	}
	return nil
}

// initramfs packs machined as /init. The kernel makes /dev/console itself for
// an initramfs that has none only when it is built in, so it is here too.
func (c *collector) initramfs(arch string) error {
	program := filepath.Join(c.store, "machined", arch)
	contents, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	archive := filepath.Join(c.work, "initramfs-"+arch)
	err = writeFile(archive, func(w io.Writer) error {
		records := cpio.Newc.Writer(w)
		return errors.Join(cpio.WriteRecords(records, []cpio.Record{
			cpio.Directory("dev", 0o755), cpio.CharDev("dev/console", 0o600, 5, 1), cpio.StaticFile("init", string(contents), 0o755),
		}), cpio.WriteTrailer(records))
	})
	if err != nil {
		return err
	}
	// Every kernel here unpacks zstd, which is smaller than gzip and as fast.
	packed, err := c.packed("initramfs-"+arch, "", archive, "zstd", "-q", "-19")
	if err != nil {
		return err
	}
	return c.add("machined-"+arch, "initramfs/"+arch, packed, "machined/"+arch)
}

// squashfs packs the root of a slot: machined, the kernel's modules, and the
// few files that programs expect in /etc.
func (c *collector) squashfs(kernel, arch, modules string) error {
	root := filepath.Join(c.work, "root-"+kernel)
	if err := c.stageRoot(root, arch, modules); err != nil {
		return fmt.Errorf("stage the root of %s: %w", kernel, err)
	}
	stamp := strconv.FormatInt(c.index.BuildTime, 10)
	options := []string{"-noappend", "-no-progress", "-comp", "gzip", "-Xcompression-level", "9", "-b", "262144",
		"-all-root", "-no-xattrs", "-all-time", stamp, "-mkfs-time", stamp}
	version, err := output("mksquashfs", "-version")
	if err != nil {
		return err
	}
	key, err := keyOf(version+strings.Join(options, " "), root)
	if err != nil {
		return err
	}
	packed, err := c.cached("system-"+kernel, key, func(path string) error {
		// mksquashfs refuses its time options beside this variable.
		unset := append([]string{"-u", "SOURCE_DATE_EPOCH", "mksquashfs", root, path}, options...)
		return c.run(nil, "env", unset...)
	})
	if err != nil {
		return err
	}
	holds := []string{"machined/" + arch}
	for _, t := range ext4.Templates() {
		holds = append(holds, t.Name)
	}
	holds = append(holds, c.rootParts(arch)...)
	return c.add("machined-"+arch, "system/"+kernel, packed, holds...)
}

func (c *collector) stageRoot(root, arch, modules string) error {
	for _, dir := range []string{
		"boot", "dev", "etc/machined", "lib", "proc", "run", "sbin", "sys", "system/state", "tmp", "usr/bin", pluginDir, "usr/share/machined", "var",
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	if err := copyFile(filepath.Join(c.store, "machined", arch), filepath.Join(root, "sbin/machined")); err != nil {
		return err
	}
	for _, t := range ext4.Templates() {
		if err := copyFile(filepath.Join(c.store, t.Name), filepath.Join(root, "usr/share/machined", t.Name)); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"etc/hosts":      "127.0.0.1 localhost\n::1 localhost\n",
		"etc/os-release": "NAME=machined\nID=machined\nVERSION_ID=" + c.index.Version + "\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := os.Symlink("/run/machined/resolv.conf", filepath.Join(root, "etc/resolv.conf")); err != nil {
		return err
	}
	for _, name := range c.rootParts(arch) {
		if err := copyFile(filepath.Join(c.store, name), filepath.Join(root, strings.TrimPrefix(name, rootPart(arch, "")))); err != nil {
			return err
		}
	}
	if err := linkPlugins(root); err != nil {
		return err
	}
	if err := copyModules(modules, filepath.Join(root, "lib/modules")); err != nil {
		return err
	}
	return setModes(root)
}

// rootParts lists the parts that go into the root of an architecture's slots.
func (c *collector) rootParts(arch string) []string {
	var names []string
	for _, p := range c.index.Parts {
		if strings.HasPrefix(p.Name, rootPart(arch, "")) {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// runs says whether a file of the slot's root is a program.
func runs(path string) bool {
	switch filepath.Base(filepath.Dir(path)) {
	case "bin", "sbin", "cni":
		return true
	}
	return strings.HasPrefix(filepath.Base(path), "ld-linux-")
}

// setModes makes the modes independent of the umask.
func setModes(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() || d.Type().IsRegular() && runs(path):
			return os.Chmod(path, 0o755)
		case d.Type().IsRegular():
			return os.Chmod(path, 0o644)
		}
		return nil
	})
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}
