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
	// mu guards what follows. It is not held while a child is made: exec(2) may
	// wait for a slow disk, and Signal must not.
	mu      sync.Mutex
	waiting map[int]func(hal.ExitStatus)
	// starting counts the starts under way. Meanwhile a child that nobody knows
	// may be one of theirs, and is left alone until it is known: a child that
	// ends at once is never taken for an orphan.
	starting int
	done     chan struct{}
	signals  chan os.Signal
	again    chan struct{} // reap, as after a signal
}

// NewReaper starts reaping.
func NewReaper() *Reaper {
	r := &Reaper{
		waiting: make(map[int]func(hal.ExitStatus)),
		done:    make(chan struct{}),
		// One place is enough: SIGCHLDs merge anyway, and reap empties all.
		signals: make(chan os.Signal, 1),
		again:   make(chan struct{}, 1),
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
	for {
		select {
		case _, open := <-r.signals:
			if !open {
				return
			}
		case <-r.again:
		}
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
	pid := endedChild(unix.P_ALL, 0)
	if _, ours := r.waiting[pid]; !ours && r.starting > 0 {
		pid = r.endedOfOurs()
	}
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

// endedOfOurs returns the number of a child that has ended and is known, 0 when
// there is none.
func (r *Reaper) endedOfOurs() int {
	for pid := range r.waiting {
		if endedChild(unix.P_PID, pid) == pid {
			return pid
		}
	}
	return 0
}

// endedChild returns the number of a child that has ended, any or the one of
// that number, without waiting for it: it stays a zombie. 0 when there is none.
func endedChild(kind, number int) int {
	var info childInfo
	for {
		err := unix.Waitid(kind, number, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
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
	r.starting++
	r.mu.Unlock()
	pid, err := fork()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starting--
	if err == nil {
		r.waiting[pid] = exited
	}
	select {
	case r.again <- struct{}{}: // for what was left alone meanwhile
	default:
	}
	if err != nil {
		return 0, err
	}
	return pid, nil
}
