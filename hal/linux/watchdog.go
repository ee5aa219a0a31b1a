package linux

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"machined/hal"
)

// Watchdog is the real hal.Watchdog, on a device such as /dev/watchdog.
type Watchdog struct {
	path string
	fd   int
}

// NewWatchdog returns the watchdog of the device at path, not yet opened.
func NewWatchdog(path string) *Watchdog { return &Watchdog{path: path, fd: -1} }

// InheritWatchdog takes over the open device fd, which an earlier start of the
// same program armed: closing and opening it again would leave a gap.
func InheritWatchdog(path string, fd int) *Watchdog {
	unix.CloseOnExec(fd)
	return &Watchdog{path: path, fd: fd}
}

// KeepWatchdog tells whether the program that this one executes next inherits
// the open device fd. At first it does not: as long as a service held the
// device, Disarm would not stop the timer.
func KeepWatchdog(fd int, keep bool) error {
	flags := unix.FD_CLOEXEC
	if keep {
		flags = 0
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, flags); err != nil {
		return fmt.Errorf("hand the watchdog on: %w", err)
	}
	return nil
}

// FD returns the open file descriptor, -1 when the device is not open.
func (w *Watchdog) FD() int { return w.fd }

// Start implements hal.Watchdog.
func (w *Watchdog) Start(timeoutSeconds int) (int, error) {
	if w.fd < 0 {
		fd, err := unix.Open(w.path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
			return 0, fmt.Errorf("open watchdog %s: %w", w.path, hal.ErrNoDevice)
		}
		if err != nil {
			return 0, fmt.Errorf("open watchdog %s: %w", w.path, err)
		}
		w.fd = fd
	}
	// A driver may refuse a long timeout (15 s is the most on a Raspberry Pi);
	// its own is then used, so an error here changes nothing.
	_ = unix.IoctlSetPointerInt(w.fd, unix.WDIOC_SETTIMEOUT, timeoutSeconds)
	actual, err := unix.IoctlGetInt(w.fd, unix.WDIOC_GETTIMEOUT)
	if err != nil || actual <= 0 {
		return timeoutSeconds, nil
	}
	return actual, nil
}

// Feed implements hal.Watchdog.
func (w *Watchdog) Feed() error { return w.write(0) }

// Disarm implements hal.Watchdog.
func (w *Watchdog) Disarm() error {
	if err := w.write('V'); err != nil {
		return err
	}
	err := unix.Close(w.fd)
	w.fd = -1
	if err != nil {
		return fmt.Errorf("close watchdog %s: %w", w.path, err)
	}
	return nil
}

// cardReset is WDIOF_CARDRESET of linux/watchdog.h.
const cardReset = 0x20

// DidReset implements hal.Watchdog.
func (w *Watchdog) DidReset() (bool, error) {
	if w.fd < 0 {
		return false, fmt.Errorf("ask watchdog %s: not started: %w", w.path, hal.ErrNoDevice)
	}
	status, err := unix.IoctlGetInt(w.fd, unix.WDIOC_GETBOOTSTATUS)
	if err != nil {
		return false, fmt.Errorf("ask watchdog %s for its boot status: %w", w.path, err)
	}
	return status&cardReset != 0, nil
}

func (w *Watchdog) write(b byte) error {
	if w.fd < 0 {
		return fmt.Errorf("write to watchdog %s: not started: %w", w.path, hal.ErrNoDevice)
	}
	if _, err := unix.Write(w.fd, []byte{b}); err != nil {
		return fmt.Errorf("write to watchdog %s: %w", w.path, err)
	}
	return nil
}

var _ hal.Watchdog = (*Watchdog)(nil)
