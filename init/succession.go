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
	"machined/reconcile/resource"
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
	// successionGrace bounds the wait for calls and handshakes under way. None
	// takes long, but emulation is slow.
	successionGrace = 4 * time.Second
)

// preload mounts the slot's squashfs and reads the program into the page
// cache. In order that takes half of the time that page faults in no order
// take.
func (n *node) preload() {
	if err := n.mountCgroups(); err != nil {
		n.log.Printf("cgroups", "%v.", err)
	} else if err := n.enterInit(); err != nil {
		n.log.Printf("cgroups", "%v.", err)
	}
	err := n.mountSystem()
	if err == nil {
		err = readAll(n.at(newRoot + program))
	}
	n.mu.Lock()
	n.preloaded = &preloaded{err: err}
	n.mu.Unlock()
	n.kick()
}

// preloaded says that preload has ended, and how.
type preloaded struct{ err error }

func readAll(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, f, make([]byte, 64<<10))
	return err
}

// successionDue returns what preload found, once, and nil before.
func (n *node) successionDue() *preloaded {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.preloaded
	n.preloaded = nil
	return p
}

// succeed executes the slot's program. Where the slot's files do not allow it,
// the node goes on as what it is: it can be reached, which beats a restart
// into the same failure.
func (n *node) succeed(p *preloaded) error {
	if p.err != nil {
		return n.stayResident(fmt.Errorf("read the system of %s: %w", n.boot.system(), p.err))
	}
	h := n.boot
	if fd, err := n.keepListener(); err != nil {
		n.log.Printf("succession", "The API is refused for a moment: %v.", err)
	} else {
		h.ListenerFD = fd
	}
	if n.server != nil {
		n.server.Stop(successionGrace)
		n.server = nil
	}
	n.clearCard() // what the last calls have led to is done, not forgotten
	if !n.closeRequests() {
		return nil // the loop goes down instead: an ending that was granted is not lost
	}
	if err := switchRoot(n.mounts); err != nil {
		return err
	}
	n.log.Flush(time.Second)
	err := execute(h)
	n.boot.ListenerFD = h.ListenerFD
	return n.stayResident(fmt.Errorf("execute %s of %s: %w", program, n.boot.system(), err))
}

// closeRequests refuses endings from now on, unless one was asked for already.
func (n *node) closeRequests() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.succeeding = n.wanted == nil
	return n.succeeding
}

// stayResident goes on without the slot's system, and so without services.
func (n *node) stayResident(why error) error {
	n.log.Printf("succession", "Going on from the initramfs, without services: %v.", why)
	n.systemStatus = &resource.ServiceStatus{ServiceID: "system", State: supervise.Failed.String(), Message: why.Error()}
	n.boot.Resident = false
	n.startWatchers()
	n.startUpgrades() // a system on trial that cannot be used is given up
	if n.boot.Netbooted {
		n.startNetboot()
	}
	n.mu.Lock()
	n.succeeding = false
	n.mu.Unlock()
	if n.server != nil {
		return nil // it was not stopped
	}
	return sequence.Run(n.apiTasks(), n.taskFailed)
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
	n.newSupervisor()
	return nil
}
