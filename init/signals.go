package main

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// watchSignals maps the signals that reach PID 1: Ctrl-Alt-Del comes as
// SIGINT, a power failure as SIGPWR. SIGTERM restarts, since a remote board
// that goes off because of a stray kill would stay off. Others that would end a
// Go program, and the kernel with this one, are caught and passed over: who
// writes "kill -HUP 1" means to reload. A fault of the program itself is not
// among them, it becomes a panic.
func (n *node) watchSignals() {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGPWR,
		unix.SIGHUP, unix.SIGQUIT, unix.SIGABRT, unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV,
		unix.SIGSTKFLT, unix.SIGSYS, unix.SIGXCPU, unix.SIGXFSZ)
	n.spawn("signals", func() {
		for s := range signals {
			n.signalled(s)
		}
	})
}

func (n *node) signalled(s os.Signal) {
	end := restart
	switch s {
	case unix.SIGINT, unix.SIGTERM:
	case unix.SIGPWR:
		end = powerOff
	default:
		n.log.Printf("signals", "Somebody sent %s, which has no meaning here.", unix.SignalName(s.(unix.Signal)))
		return
	}
	if err := n.ask(end, s.String()); err != nil {
		n.log.Printf("signals", "%v.", err)
	}
}

func (n *node) watchPowerButton() error {
	watchPowerButton(n.root, n.spawn, func() {
		if err := n.ask(powerOff, "the power button"); err != nil {
			n.log.Printf("power button", "%v.", err)
		}
	})
	return nil
}
