// Package linux implements the hal interfaces with system calls.
package linux

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"machined/hal"
)

// Power is the real hal.Power.
type Power struct{}

// Restart implements hal.Power.
func (Power) Restart(arg string) error {
	if arg == "" {
		return fmt.Errorf("restart: %w", unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART))
	}
	p, err := unix.BytePtrFromString(arg)
	if err != nil {
		return fmt.Errorf("restart with argument %q: %w", arg, err)
	}
	_, _, errno := unix.Syscall6(unix.SYS_REBOOT, unix.LINUX_REBOOT_MAGIC1, unix.LINUX_REBOOT_MAGIC2,
		unix.LINUX_REBOOT_CMD_RESTART2, uintptr(unsafe.Pointer(p)), 0, 0)
	return fmt.Errorf("restart with argument %q: %w", arg, errno)
}

// PowerOff implements hal.Power.
func (Power) PowerOff() error {
	return fmt.Errorf("power off: %w", unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
}

// CatchCtrlAltDel implements hal.Power.
func (Power) CatchCtrlAltDel() error {
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF); err != nil {
		return fmt.Errorf("hand Ctrl-Alt-Del to PID 1: %w", err)
	}
	return nil
}

var _ hal.Power = Power{}
