package linux

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"machined/hal"
)

// Reaper collects every child of the process, adopted orphans included, and
// hands each exit status to whoever started that child. There is one a
// program: a second wait4(-1), or os/exec beside it, would steal statuses.
type Reaper struct {
	// mu is held from before fork until the child is in waiting, and by the
	// reaper from wait4 until it has looked the child up: a child that ends
	// at once is never taken for an orphan.
	mu      sync.Mutex
	waiting map[int]func(hal.ExitStatus)
	done    chan struct{}
	signals chan os.Signal
}

// NewReaper starts reaping.
func NewReaper() *Reaper {
	r := &Reaper{
		waiting: make(map[int]func(hal.ExitStatus)),
		done:    make(chan struct{}),
		// One place is enough: SIGCHLDs merge anyway, and reap empties all.
		signals: make(chan os.Signal, 1),
	}
	signal.Notify(r.signals, unix.SIGCHLD)
	go r.run()
	return r
}

// Close stops reaping.
func (r *Reaper) Close() {
	signal.Stop(r.signals)
	close(r.signals)
	<-r.done
}

func (r *Reaper) run() {
	defer close(r.done)
	r.reap() // what ended before the signal was asked for
	for range r.signals {
		r.reap()
	}
}

// reap collects all the children that have ended so far.
func (r *Reaper) reap() {
	for {
		status, exited, more := r.reapOne()
		if !more {
			return
		}
		if exited != nil {
			exited(status)
		}
	}
}

func (r *Reaper) reapOne() (hal.ExitStatus, func(hal.ExitStatus), bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid := endedChild()
	if pid <= 0 {
		return hal.ExitStatus{}, nil, false
	}
	exited, ours := r.waiting[pid]
	delete(r.waiting, pid)
	if ours {
		// What it left in its process group would run beside its next start. Not
		// yet waited for, it still holds the number, which nobody else can get.
		_ = unix.Kill(-pid, unix.SIGKILL)
	}
	var ws unix.WaitStatus
	_, err := unix.Wait4(pid, &ws, 0, nil)
	for errors.Is(err, unix.EINTR) {
		_, err = unix.Wait4(pid, &ws, 0, nil)
	}
	if err != nil {
		return hal.ExitStatus{}, nil, false
	}
	status := hal.ExitStatus{PID: pid}
	if ws.Signaled() {
		status.Signal = int(ws.Signal())
	} else {
		status.Code = ws.ExitStatus()
	}
	return status, exited, true
}

// signal sends a signal to the process group of a child that was started and
// has not been waited for: the number of one that has may be somebody else's.
func (r *Reaper) signal(pid int, s unix.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ours := r.waiting[pid]; !ours {
		return hal.ErrNotFound
	}
	err := unix.Kill(-pid, s)
	if errors.Is(err, unix.ESRCH) {
		err = hal.ErrNotFound
	}
	return err
}

// childInfo is the kernel's siginfo_t as waitid(2) fills it in. The union
// after the first three fields is aligned like a pointer.
type childInfo struct {
	signo, errno, code int32
	_                  [0]uintptr
	pid                int32
	_                  [128]byte
}

// endedChild returns the number of a child that has ended, without waiting for
// it: it stays a zombie. 0 when there is none.
func endedChild() int {
	var info childInfo
	for {
		err := unix.Waitid(unix.P_ALL, 0, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0
		}
		return int(info.pid)
	}
}

// start runs fork, which returns the new child's pid, and registers exited.
func (r *Reaper) start(fork func() (int, error), exited func(hal.ExitStatus)) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return 0, err
	}
	r.waiting[pid] = exited
	return pid, nil
}
