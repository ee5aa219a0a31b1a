package linux

import (
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"machined/hal"
)

// Processes is the real hal.Processes.
type Processes struct {
	reaper *Reaper
	// cgroups is where the hierarchy of cgroups is mounted.
	cgroups string
}

// NewProcesses returns a driver whose exit statuses come from reaper, on the
// hierarchy of cgroups that is mounted at that directory.
func NewProcesses(reaper *Reaper, cgroups string) *Processes {
	return &Processes{reaper: reaper, cgroups: cgroups}
}

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
	if spec.Cgroup != "" {
		// The process begins in its cgroup: moved later, it could have left children
		// and memory outside.
		dir, err := syscall.Open(filepath.Join(p.cgroups, spec.Cgroup), syscall.O_DIRECTORY|syscall.O_CLOEXEC|unix.O_PATH, 0)
		if err != nil {
			return 0, fmt.Errorf("start %s in cgroup %s: %w", spec.Argv[0], spec.Cgroup, err)
		}
		defer syscall.Close(dir)
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, dir
	}
	warm(spec.Argv[0], attr.Dir)
	pid, err := p.reaper.start(func() (int, error) { return fork(spec, attr) }, exited)
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", spec.Argv[0], err)
	}
	return pid, nil
}

// fork starts the process from a thread with the restrictions that the process
// is to inherit, which are a thread's own and cannot be taken back. The thread
// ends with the goroutine that is locked to it.
func fork(spec hal.ProcessSpec, attr *syscall.ProcAttr) (pid int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err = unix.Prctl(unix.PR_SET_TIMERSLACK, usualSlack, 0, 0, 0); err != nil {
			err = fmt.Errorf("set the timer slack: %w", err)
			return
		}
		if spec.NoNewPrivs || spec.Bounded {
			if err = restrict(spec); err != nil {
				return
			}
			if spec.Bounded && spec.UID != 0 {
				attr.Sys.AmbientCaps = capabilities(spec.Capabilities)
			}
		}
		if pid, err = syscall.ForkExec(spec.Argv[0], spec.Argv, attr); err != nil || spec.OOMScoreAdj == 0 {
			return
		}
		// One that has ended meanwhile, or a machine without /proc, needs none.
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(strconv.Itoa(spec.OOMScoreAdj)), 0)
	}()
	<-done
	return pid, err
}

// lastCapability is more than any kernel has; the bits of a mask.
const lastCapability = 63

// restrict gives up for the calling thread what the process is not to have.
func restrict(spec hal.ProcessSpec) error {
	for c := uintptr(0); c <= lastCapability && spec.Bounded; c++ {
		if spec.Capabilities>>c&1 == 1 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err == unix.EINVAL {
			break // the kernel has no more
		} else if err != nil {
			return fmt.Errorf("give up capability %d: %w", c, err)
		}
	}
	if !spec.NoNewPrivs {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// capabilities lists the bits of a mask.
func capabilities(mask uint64) []uintptr {
	var out []uintptr
	for ; mask != 0; mask &= mask - 1 {
		out = append(out, uintptr(bits.TrailingZeros64(mask)))
	}
	return out
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

// SignalAll implements hal.Processes.
func (p *Processes) SignalAll(signal int) (int, error) {
	if pid := os.Getpid(); pid != 1 {
		// It would end the session of whoever runs a test.
		return 0, fmt.Errorf("signal all processes as process %d, not as PID 1: %w", pid, hal.ErrInvalid)
	}
	n, err := userProcesses("/proc")
	if err != nil || n == 0 || signal == 0 {
		return n, err
	}
	if err := unix.Kill(-1, unix.Signal(signal)); err != nil && err != unix.ESRCH {
		return n, fmt.Errorf("signal all processes: %w", err)
	}
	return n, nil
}

// kernelThread is PF_KTHREAD of the flags in proc_pid_stat(5).
const kernelThread = 0x00200000

// userProcesses counts the processes beside PID 1: neither threads of the
// kernel, nor those that have ended and wait to be reaped.
func userProcesses(proc string) (int, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return 0, fmt.Errorf("count the processes: %w", err)
	}
	n := 0
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err != nil || pid == 1 {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(proc, e.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		// The name is in parentheses and may have any character.
		_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
		fields := strings.Fields(rest)
		if len(fields) < 7 || fields[0] == "Z" || fields[0] == "X" {
			continue
		}
		if flags, err := strconv.ParseUint(fields[6], 10, 64); err == nil && flags&kernelThread == 0 {
			n++
		}
	}
	return n, nil
}

var _ hal.Processes = (*Processes)(nil)
