package linux

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"machined/hal"
)

// kexecLoaded has a 1 when a kernel is loaded, and is not there in a kernel that
// cannot load one (Documentation/ABI/testing/sysfs-kernel-kexec of Linux).
const kexecLoaded = "/sys/kernel/kexec_loaded"

// LoadKernel implements hal.Power.
func (Power) LoadKernel(kernel, initramfs, arguments string) error {
	doing := "load the kernel " + kernel
	if _, err := os.Stat(kexecLoaded); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w: this kernel has no kexec", doing, hal.ErrUnsupported)
	}
	k, err := os.Open(kernel)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, missingFile(err))
	}
	defer k.Close()
	i, err := os.Open(initramfs)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, missingFile(err))
	}
	defer i.Close()
	err = unix.KexecFileLoad(int(k.Fd()), int(i.Fd()), arguments, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		err = fmt.Errorf("%w: %w", hal.ErrUnsupported, err)
	}
	if err != nil {
		return fmt.Errorf("%s (kexec_file_load): %w", doing, err)
	}
	return nil
}

func missingFile(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", hal.ErrNotFound, err)
	}
	return err
}

// StartKernel implements hal.Power.
func (Power) StartKernel() error { return startKernel(kexecLoaded) }

func startKernel(loaded string) error {
	text, err := os.ReadFile(loaded)
	if err != nil {
		return fmt.Errorf("start a loaded kernel: %w", missingFile(err))
	}
	if string(bytes.TrimSpace(text)) != "1" {
		return fmt.Errorf("start a loaded kernel: %w: none is loaded", hal.ErrNotFound)
	}
	return fmt.Errorf("start the loaded kernel: %w", unix.Reboot(unix.LINUX_REBOOT_CMD_KEXEC))
}
