package linux

import (
	"errors"
	"os"
	"os/signal"
	"sync"

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
	var ws unix.WaitStatus
	pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
	for errors.Is(err, unix.EINTR) {
		pid, err = unix.Wait4(-1, &ws, unix.WNOHANG, nil)
	}
	if err != nil || pid <= 0 {
		return hal.ExitStatus{}, nil, false
	}
	exited := r.waiting[pid]
	delete(r.waiting, pid)
	status := hal.ExitStatus{PID: pid}
	if ws.Signaled() {
		status.Signal = int(ws.Signal())
	} else {
		status.Code = ws.ExitStatus()
	}
	return status, exited, true
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
