package qemu

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"machined/tools/piboot"
)

// quirks are kernel arguments for QEMU's models alone: the Pi's has neither
// the clocks nor the power domains that the kernel would switch off, and its
// watchdog resets the machine as soon as it is started.
func quirks(board string) string {
	if board == "rpi-3a-plus" {
		return " clk_ignore_unused pd_ignore_unused machined.watchdog=off"
	}
	return ""
}

// upstreamTree is the device tree that QEMU's Pi can run; the one that the
// firmware picks describes hardware that the model lacks.
const upstreamTree = "bcm2837-rpi-3-a-plus.dtb"

// playFirmware decides from the disk's boot partition what a Raspberry Pi
// would load, and unpacks it.
func (v *VM) playFirmware() (*directBoot, error) {
	boot, closer, err := piboot.OpenImage(v.disk)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	tryboot := v.oneShot.Boot() && !v.IgnoreTryboot
	choice, err := piboot.Decide(boot, tryboot)
	if err != nil {
		return nil, err
	}
	for _, w := range choice.Warnings {
		fmt.Fprintf(v.console, "piboot: %s\n", w)
	}
	fmt.Fprintf(v.console, "piboot: %s selects %s\n", choice.ConfigFile, choice.Kernel)
	d := &directBoot{
		kernel: filepath.Join(v.dir, "kernel"), initramfs: filepath.Join(v.dir, "initramfs"), dtb: filepath.Join(v.dir, "dtb"),
		cmdline: strings.TrimSpace(choice.Cmdline) + quirks(v.Board.Name) + " " + v.Append,
	}
	if err := extract(boot, d.kernel, choice.Kernel); err != nil {
		return nil, err
	}
	if v.Initramfs != "" {
		d.initramfs = v.Initramfs
	} else if err := extract(boot, d.initramfs, choice.Initramfs...); err != nil {
		return nil, err
	}
	if v.Board.Name != "rpi-3a-plus" {
		return d, nil // the machine brings its own device tree
	}
	tree, err := fs.ReadFile(boot, choice.OSPrefix+upstreamTree)
	if err != nil {
		return nil, err
	}
	if tree, err = piboot.PatchDTB(tree); err != nil {
		return nil, err
	}
	return d, os.WriteFile(d.dtb, tree, 0o644)
}

// extract copies the files of the boot partition, one after the other, to path.
func extract(boot fs.FS, path string, names ...string) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	for _, name := range names {
		in, err := boot.Open(name)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		in.Close()
		if err != nil {
			return fmt.Errorf("read %s from the boot partition: %w", name, err)
		}
	}
	return out.Close()
}
