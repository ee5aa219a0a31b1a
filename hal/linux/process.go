package linux

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"machined/hal"
)

// Processes is the real hal.Processes.
type Processes struct{ reaper *Reaper }

// NewProcesses returns a driver whose exit statuses come from reaper.
func NewProcesses(reaper *Reaper) *Processes { return &Processes{reaper: reaper} }

// Start implements hal.Processes. It calls syscall.ForkExec and not os/exec,
// whose own waiting would race with the reaper.
func (p *Processes) Start(spec hal.ProcessSpec, exited func(hal.ExitStatus)) (int, error) {
	if len(spec.Argv) == 0 {
		return 0, fmt.Errorf("start a process: the command is empty: %w", hal.ErrInvalid)
	}
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("start %s: open /dev/null: %w", spec.Argv[0], err)
	}
	defer syscall.Close(null)
	attr := &syscall.ProcAttr{
		Dir:   "/",
		Env:   spec.Env,
		Files: []uintptr{uintptr(null), fdOr(spec.Stdout, null), fdOr(spec.Stderr, null)},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	if spec.Dir != "" {
		attr.Dir = spec.Dir
	}
	if spec.UID != 0 || spec.GID != 0 {
		attr.Sys.Credential = &syscall.Credential{Uid: spec.UID, Gid: spec.GID}
	}
	pid, err := p.reaper.start(func() (int, error) {
		return syscall.ForkExec(spec.Argv[0], spec.Argv, attr)
	}, exited)
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", spec.Argv[0], err)
	}
	return pid, nil
}

func fdOr(fd, null int) uintptr {
	if fd < 0 {
		return uintptr(null)
	}
	return uintptr(fd)
}

// Signal implements hal.Processes.
func (p *Processes) Signal(pid, signal int) error {
	if pid <= 1 {
		// kill(-1) would reach every process of the machine.
		return fmt.Errorf("signal process group %d: %w", pid, hal.ErrInvalid)
	}
	if err := p.reaper.signal(pid, unix.Signal(signal)); err != nil {
		return fmt.Errorf("signal process group %d: %w", pid, err)
	}
	return nil
}

var _ hal.Processes = (*Processes)(nil)
