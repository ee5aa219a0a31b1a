package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/u-root/u-root/pkg/cpio"

	"machined/images/parts"
)

// programs builds machined for both architectures.
func (c *collector) programs() error {
	for _, arch := range []string{"amd64", "arm64"} {
		name := "machined/" + arch
		path := filepath.Join(c.store, filepath.FromSlash(name))
		ldflags := fmt.Sprintf("-s -w -buildid= -X main.version=%s -X main.buildTime=%d", c.index.Version, c.index.BuildTime)
		// grpcnotrace leaves out the tracing pages, and with them HTML
		// templates.
		err := c.run([]string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch, "GOFLAGS="},
			"go", "build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace", "-ldflags", ldflags, "-o", path, "machined/init")
		if err != nil {
			return err
		}
		modules, err := linkedModules(path)
		if err != nil {
			return err
		}
		component := "machined-" + arch
		c.index.Components = append(c.index.Components, parts.Component{
			Name: component, Version: c.index.Version, License: "Apache-2.0", Source: "this repository", GoModules: modules,
		})
		if err := c.register(component, name); err != nil {
			return err
		}
	}
	return nil
}

// linkedModules lists the Go modules in a program, and the Go release.
func linkedModules(program string) ([]string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("list the modules in %s: %w", program, err)
	}
	modules := []string{"stdlib@" + info.GoVersion}
	for _, d := range info.Deps {
		modules = append(modules, d.Path+"@"+d.Version)
	}
	slices.Sort(modules)
	return modules, nil
}

// template makes the small ext4 that becomes STATE: 3 MiB, which the node
// writes in a second even without DMA, and grows to the size of its partition.
// Small blocks keep the journal small. metadata_csum_seed keeps the checksums
// apart from the UUID.
func (c *collector) template() error {
	image := filepath.Join(c.work, "state.ext4")
	if err := os.Truncate(image, 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	const uuid = "6d616368-696e-6564-5354-415445000000"
	err := c.run([]string{"E2FSPROGS_FAKE_TIME=" + strconv.FormatInt(c.index.BuildTime, 10), "MKE2FS_DEVICE_SECTSIZE=512"},
		"mke2fs", "-q", "-t", "ext4", "-b", "1024", "-I", "256", "-N", "128", "-m", "0", "-L", "STATE", "-U", uuid,
		"-E", "hash_seed="+uuid+",lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0", "-J", "size=1",
		"-O", "64bit,metadata_csum,metadata_csum_seed,^resize_inode,meta_bg", image, "3M")
	if err != nil {
		return err
	}
	c.index.Components = append(c.index.Components, parts.Component{
		Name: "state-template", Version: c.index.Version, License: "Apache-2.0", Source: "made by mke2fs of Debian package e2fsprogs; holds no code",
	})
	return c.make("state-template", "state.ext4.gz", func(w io.Writer) error { return compress(w, image) })
}

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
	program, err := os.ReadFile(filepath.Join(c.store, "machined", arch))
	if err != nil {
		return err
	}
	return c.make("machined-"+arch, "initramfs/"+arch, func(w io.Writer) error {
		archive := filepath.Join(c.work, "initramfs-"+arch)
		f, err := os.Create(archive)
		if err != nil {
			return err
		}
		records := cpio.Newc.Writer(f)
		err = cpio.WriteRecords(records, []cpio.Record{
			cpio.Directory("dev", 0o755), cpio.CharDev("dev/console", 0o600, 5, 1), cpio.StaticFile("init", string(program), 0o755),
		})
		if err = errors.Join(err, cpio.WriteTrailer(records), f.Close()); err != nil {
			return err
		}
		return compress(w, archive)
	})
}

// squashfs packs the root of a slot: machined, the kernel's modules, and the
// few files that programs expect in /etc.
func (c *collector) squashfs(kernel, arch, modules string) error {
	root := filepath.Join(c.work, "root-"+kernel)
	if err := c.stageRoot(root, arch, modules); err != nil {
		return fmt.Errorf("stage the root of %s: %w", kernel, err)
	}
	name := "system/" + kernel
	path := filepath.Join(c.store, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	stamp := strconv.FormatInt(c.index.BuildTime, 10)
	err := c.run([]string{"SOURCE_DATE_EPOCH="}, "sh", "-c", `unset SOURCE_DATE_EPOCH; exec mksquashfs "$@"`, "sh", root, path,
		"-noappend", "-no-progress", "-comp", "gzip", "-Xcompression-level", "9", "-b", "131072",
		"-all-root", "-no-xattrs", "-all-time", stamp, "-mkfs-time", stamp)
	if err != nil {
		return err
	}
	return c.register("machined-"+arch, name)
}

func (c *collector) stageRoot(root, arch, modules string) error {
	for _, dir := range []string{
		"boot", "dev", "etc/machined", "lib", "proc", "run", "sbin", "sys", "system/state", "tmp", "usr/bin", "usr/share/machined", "var",
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for from, to := range map[string]string{
		filepath.Join(c.store, "machined", arch): "sbin/machined",
		filepath.Join(c.store, "state.ext4.gz"):  "usr/share/machined/state.ext4.gz",
	} {
		if err := copyFile(from, filepath.Join(root, to), 0o755); err != nil {
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
	return copyModules(modules, filepath.Join(root, "lib/modules"))
}

// copyModules copies the kernel's modules and the indexes for finding them.
// Some kernels have none.
func copyModules(from, to string) error {
	if _, err := os.Stat(from); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		base := filepath.Base(rel)
		if filepath.Ext(base) != ".ko" && base != "modules.dep" && base != "modules.alias" && base != "modules.builtin" {
			return nil
		}
		if strings.Contains(rel, "/drivers/media/") {
			return nil // tuners and cameras: most of the modules, and no use here
		}
		return copyFile(path, filepath.Join(to, rel), 0o644)
	})
}

func copyFile(from, to string, mode os.FileMode) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, mode)
}
