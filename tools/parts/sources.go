package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"machined/images/parts"
)

// kernels takes the kernels, the device trees and the kernel modules.
func (c *collector) kernels() error {
	for _, k := range []struct{ name, module string }{
		{"amd64", "github.com/gokrazy/kernel.amd64"},
		{"arm64", "github.com/gokrazy/kernel.arm64"},
		{"rpi", "github.com/gokrazy/kernel.rpi"},
	} {
		dir, version, err := c.module(k.module)
		if err != nil {
			return err
		}
		component := "linux-" + k.name
		c.index.Components = append(c.index.Components, parts.Component{
			Name: component, Version: version, License: "GPL-2.0-only WITH Linux-syscall-note", Source: k.module,
		})
		if err := c.licenses(component, dir, "LICENSE", "LICENSE.linux"); err != nil {
			return err
		}
		vmlinuz := filepath.Join(dir, "vmlinuz")
		if k.name != "rpi" {
			if err := c.add(component, "kernel/"+k.name, vmlinuz); err != nil {
				return err
			}
			continue
		}
		// The firmware unpacks gzip; raw, the kernel would take 46 MB a slot.
		packed, err := c.packed("kernel-rpi", version, vmlinuz, "libdeflate-gzip", "-12")
		if err != nil {
			return err
		}
		if err := c.add(component, "kernel/rpi", packed); err != nil {
			return err
		}
		if err := c.piTrees(component, dir); err != nil {
			return err
		}
	}
	return nil
}

// piTrees takes the device trees of the 3A+ (the firmware picks the first by
// itself, QEMU runs the second), those of the models that are netbooted beside it,
// and the overlays.
func (c *collector) piTrees(component, dir string) error {
	for _, dtb := range []string{"bcm2710-rpi-3-b-plus.dtb", "bcm2837-rpi-3-a-plus.dtb", "bcm2710-rpi-3-b.dtb", "bcm2711-rpi-4-b.dtb"} {
		if err := c.add(component, "dtb/"+dtb, filepath.Join(dir, dtb)); err != nil {
			return err
		}
	}
	overlays, err := os.ReadDir(filepath.Join(dir, "overlays"))
	if err != nil {
		return err
	}
	for _, o := range overlays {
		if ext := filepath.Ext(o.Name()); ext != ".dtbo" && ext != ".dtb" {
			continue
		}
		if err := c.add(component, "overlays/"+o.Name(), filepath.Join(dir, "overlays", o.Name())); err != nil {
			return err
		}
	}
	return nil
}

// packed returns the path of a file in the cache that a compressor makes of
// from. The one for gzip saves a twelfth over the standard library's.
func (c *collector) packed(name, key, from, tool string, args ...string) (string, error) {
	version, err := output(tool, "-V")
	if err != nil {
		return "", fmt.Errorf("find the compressor; `make setup` installs it: %w", err)
	}
	if key, err = keyOf(fmt.Sprint(version, args, key), from); err != nil {
		return "", err
	}
	return c.cached(name, key, func(path string) error {
		in, err := os.Open(from)
		if err != nil {
			return err
		}
		defer in.Close()
		return writeFile(path, func(w io.Writer) error {
			var said bytes.Buffer
			cmd := exec.Command(tool, args...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = in, w, &said
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("run %s: %w\n%s", tool, err, bytes.TrimSpace(said.Bytes()))
			}
			return nil
		})
	})
}

// compress writes from in gzip, without a name or time in its header.
func compress(w io.Writer, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	_, err = io.Copy(z, f)
	return errors.Join(err, z.Close())
}

// firmware takes the Raspberry Pi's boot files. gpu_mem=16 selects the _cd
// pair; the plain pair is for a user who raises it.
func (c *collector) firmware() error {
	const module = "github.com/gokrazy/firmware"
	dir, version, err := c.module(module)
	if err != nil {
		return err
	}
	c.index.Components = append(c.index.Components, parts.Component{
		Name: "raspberrypi-firmware", Version: version, License: "LicenseRef-Broadcom-RaspberryPi", Source: module,
	})
	if err := c.licenses("raspberrypi-firmware", dir, "LICENSE"); err != nil {
		return err
	}
	for _, f := range []string{
		"bootcode.bin", "start.elf", "fixup.dat", "start_cd.elf", "fixup_cd.dat", "start4.elf", "fixup4.dat", "start4cd.elf", "fixup4cd.dat",
	} {
		if err := c.add("raspberrypi-firmware", "firmware/"+f, filepath.Join(dir, f)); err != nil {
			return err
		}
	}
	return c.add("raspberrypi-firmware", "firmware/LICENCE.broadcom", filepath.Join(dir, "LICENSE.broadcom"))
}

// loaders takes systemd-boot for both architectures, and the stub that makes a
// kernel an EFI program. A Debian package that is
// built for another architecture than the machine's is unpacked, not installed.
func (c *collector) loaders() error {
	for _, l := range []struct{ arch, file, stub string }{
		{"amd64", "systemd-bootx64.efi", "linuxx64.efi.stub"}, {"arm64", "systemd-bootaa64.efi", "linuxaa64.efi.stub"},
	} {
		dir, version, err := c.debian("systemd-boot-efi", l.arch)
		if err != nil {
			return err
		}
		component := "systemd-boot-" + l.arch
		c.index.Components = append(c.index.Components, parts.Component{
			Name: component, Version: version, License: "LGPL-2.1-or-later", Source: "Debian package systemd-boot-efi:" + l.arch,
		})
		if err := c.licenses(component, filepath.Join(dir, "usr/share/doc/systemd-boot-efi"), "copyright"); err != nil {
			return err
		}
		for part, file := range map[string]string{"loader/" + l.arch + ".efi": l.file, "stub/" + l.arch + ".efi": l.stub} {
			if err := c.add(component, part, filepath.Join(dir, "usr/lib/systemd/boot/efi", file)); err != nil {
				return err
			}
		}
	}
	return nil
}

// debian downloads and unpacks a package of any architecture, by way of apt,
// which checks the archive's signatures. A package that is in the cache is
// taken from there.
func (c *collector) debian(pkg, arch string) (dir, version string, err error) {
	cache := filepath.Join(c.cache, pkg+"-"+arch)
	deb, err := oneFile(cache, "*.deb")
	if err != nil {
		if err := c.download(pkg, arch, cache); err != nil {
			return "", "", err
		}
		if deb, err = oneFile(cache, "*.deb"); err != nil {
			return "", "", err
		}
	}
	if version, err = output("dpkg-deb", "-f", deb, "Version"); err != nil {
		return "", "", err
	}
	dir = filepath.Join(c.work, pkg+"-"+arch)
	return dir, version, c.run(nil, "dpkg", "-x", deb, dir)
}

func oneFile(dir, pattern string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("%s holds %d files that match %s, and 1 is needed", dir, len(files), pattern)
	}
	if err != nil {
		return "", err
	}
	return files[0], nil
}

// download fetches a package into dir, which appears when it is complete. Its
// index of the archive is its own, since the machine's may lack the
// architecture.
func (c *collector) download(pkg, arch, dir string) error {
	lists, fresh := filepath.Join(c.work, "lists-"+arch), filepath.Join(c.work, "deb-"+arch)
	for _, d := range []string{fresh, filepath.Join(lists, "partial")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	options := []string{"-q", "-o", "APT::Architecture=" + arch, "-o", "APT::Architectures=" + arch,
		"-o", "Dir::State::Lists=" + lists, "-o", "APT::Sandbox::User=root"}
	if index, _ := filepath.Glob(filepath.Join(lists, "*_InRelease")); len(index) == 0 {
		if err := c.run(nil, "apt-get", append(options, "update")...); err != nil {
			return err
		}
	}
	script := `cd "$1" && shift && exec apt-get "$@"`
	if err := c.run(nil, "sh", append([]string{"-c", script, "sh", fresh}, append(options, "download", pkg)...)...); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(fresh, dir)
}
