package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"machined/hal/linux"
	"machined/init/sequence"
	"machined/init/supervise"
)

// The node answers before its program has been read from the card, which is
// most of the time between the kernel and the API on a board with a slow one:
// it starts as the copy in the initramfs, and executes itself from the slot
// when that is in the page cache. The copy's memory, which could never be
// evicted, comes back with that; its successor takes over the listening socket
// and the watchdog. Services are the successor's.

const (
	program   = "/sbin/machined" // in the slot's squashfs
	stage2Arg = "stage2"
	// successionGrace bounds the wait for calls under way. None takes long.
	successionGrace = time.Second
)

// preloadProgram reads the program into the page cache. In order that takes
// half of the time that page faults in no order take.
func (n *node) preloadProgram() {
	f, err := os.Open(program)
	if err == nil {
		_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, f, make([]byte, 64<<10))
		f.Close()
	}
	if err != nil {
		// succeed finds out whether it can be executed all the same.
		n.log.Printf("succession", "Read %s: %v.", program, err)
	}
	n.mu.Lock()
	n.loadedProgram = true
	n.mu.Unlock()
	n.kick()
}

func (n *node) successionDue() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.loadedProgram && n.boot.Resident
}

// succeed executes the slot's program. Where that fails, the node goes on as
// what it is: it can be reached, and upgraded, which beats a restart into the
// same failure.
func (n *node) succeed() error {
	h := n.boot
	h.Prepared = true
	if fd, err := n.keepListener(); err != nil {
		n.log.Printf("succession", "The API is refused for a moment: %v.", err)
	} else {
		h.ListenerFD = fd
	}
	if n.server != nil {
		n.server.Stop(successionGrace)
	}
	n.log.Flush(time.Second)
	err := execute(h)
	n.log.Printf("succession", "Going on from the initramfs, since %s of slot %s cannot be executed: %v.", program, n.boot.Slot, err)
	n.boot.Resident, n.boot.ListenerFD = false, h.ListenerFD
	tasks := append([]sequence.Task{
		{Name: "state", Optional: true, Run: n.mountState},
		{Name: "identity", Optional: true, Run: n.loadIdentity},
		{Name: "api", Optional: true, Run: n.startAPI},
	}, n.lateTasks()...)
	return sequence.Run(tasks, n.taskFailed)
}

// execute replaces the program by the slot's, which inherits the watchdog. It
// returns only with an error.
func execute(h handover) error {
	if h.WatchdogFD >= 0 {
		if err := linux.KeepWatchdog(h.WatchdogFD, true); err != nil {
			return err // without it the successor could not feed it
		}
		defer func() { _ = linux.KeepWatchdog(h.WatchdogFD, false) }() // from the services to come
	}
	return unix.Exec(program, []string{program, stage2Arg}, h.environ())
}

// keepListener returns a descriptor of the API's socket that outlives exec(2)
// and the server. Clients that come in between wait in its backlog.
func (n *node) keepListener() (int, error) {
	l, ok := n.listener.(*net.TCPListener)
	if !ok {
		return -1, nil
	}
	f, err := l.File()
	if err != nil {
		return -1, fmt.Errorf("keep the API's socket: %w", err)
	}
	defer f.Close()
	fd, err := unix.Dup(int(f.Fd())) // without O_CLOEXEC
	if err != nil {
		return -1, fmt.Errorf("keep the API's socket: %w", err)
	}
	return fd, nil
}

// withoutServices gives a resident node an empty supervisor.
func (n *node) withoutServices() error {
	n.supervisor = supervise.New(n.processes, nil, nil, n.kick)
	return nil
}
