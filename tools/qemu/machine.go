package qemu

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"machined/board"
)

// arguments returns QEMU's program and arguments for one start of the machine.
// A board whose firmware is played by piboot is given the files chosen for
// this boot.
func (v *VM) arguments(boot *directBoot) (string, []string, error) {
	common := []string{
		"-nodefaults", "-display", "none", "-serial", "stdio", "-accel", v.accel(),
		"-qmp", "unix:" + v.qmpPath() + ",server=on,wait=off",
		"-netdev", fmt.Sprintf("user,id=n0,hostfwd=tcp:127.0.0.1:%d-:50000", v.APIPort),
	}
	if boot != nil {
		common = append(common, "-no-reboot", "-kernel", boot.kernel, "-initrd", boot.initramfs, "-append", boot.cmdline)
	}
	switch v.Options.Board.Name {
	case "rpi-3a-plus":
		return "qemu-system-aarch64", append(common,
			"-M", "raspi3ap", "-dtb", boot.dtb,
			"-drive", "file="+v.disk+",if=sd,format=raw,cache=writeback",
			"-device", "usb-net,netdev=n0",
			"-d", "unimp", "-D", v.unimpPath()), nil
	case "arm64-mbr":
		return "qemu-system-aarch64", append(common, v.virt()...), nil
	case "arm64-uefi":
		vars, err := v.variables("/usr/share/AAVMF/AAVMF_VARS.fd")
		return "qemu-system-aarch64", append(append(common, v.virt()...),
			"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=/usr/share/AAVMF/AAVMF_CODE.fd",
			"-drive", "if=pflash,format=raw,unit=1,file="+vars), err
	case "x86_64-uefi":
		vars, err := v.variables("/usr/share/OVMF/OVMF_VARS_4M.fd")
		return "qemu-system-x86_64", append(append(common, v.paravirtual()...),
			"-M", "q35", "-cpu", "max", "-smp", "2",
			"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd",
			"-drive", "if=pflash,format=raw,unit=1,file="+vars), err
	}
	return "", nil, fmt.Errorf("no QEMU machine models the board %q; those are %s", v.Options.Board.Name, board.Names())
}

// accel is software emulation: the kernels do not run under every KVM. On the
// Pi's model one thread boots three times as fast as four. On x86-64 a second
// thread now and then runs into an instruction that the kernel on the first is
// patching, and takes the breakpoint in it for a fault.
func (v *VM) accel() string {
	switch v.Options.Board.Name {
	case "rpi-3a-plus", "x86_64-uefi":
		return "tcg,thread=single"
	}
	return "tcg"
}

// virt is the generic arm64 machine.
func (v *VM) virt() []string {
	return append(v.paravirtual(), "-M", "virt", "-cpu", "cortex-a53", "-smp", "2")
}

// paravirtual is what the machines beside the Pi's have in common.
func (v *VM) paravirtual() []string {
	disk := []string{"-device", "virtio-blk-pci,drive=d0"}
	if v.LateDisk {
		disk = nil
	}
	if v.LateDisk || v.USBDisk != "" {
		disk = append(disk, "-device", "qemu-xhci")
	}
	if v.USBDisk != "" {
		// A node of its own outlives the device that is pulled out.
		disk = append(disk, "-blockdev", "driver=raw,node-name=usb0,file.driver=file,file.filename="+v.USBDisk)
	}
	if v.SecondNIC {
		disk = append(disk, "-netdev", "user,id=n1,net=10.0.3.0/24", "-device", "virtio-net-pci,netdev=n1,id=nic1,romfile=")
	}
	return append(disk,
		"-m", strconv.Itoa(v.MemoryMB),
		"-drive", "file="+v.disk+",if=none,id=d0,format=raw,cache=writeback",
		"-device", "virtio-net-pci,netdev=n0,romfile=",
		"-device", "virtio-rng-pci",
		"-device", "i6300esb", "-action", "watchdog=reset",
	)
}

// variables returns the machine's own copy of the firmware's variables.
func (v *VM) variables(template string) (string, error) {
	path := filepath.Join(v.dir, "efivars.fd")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	info, err := os.Stat(template)
	if err != nil {
		return "", fmt.Errorf("copy the firmware's variables; `make setup` installs them: %w", err)
	}
	return path, copySparse(path, template, info.Size())
}
