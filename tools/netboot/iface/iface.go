// Package iface opens sockets that hear the boards' network and no other one: a
// laptop has more of them, and who is there is to get no file and no token.
package iface

import (
	"errors"
	"io/fs"
	"net"
	"syscall"
)

// Control has a socket receive what comes by one interface, and send there, for
// net.ListenConfig and net.Dialer. What this machine sends to itself goes by the
// loopback, and does not reach it. Systems other than Linux cannot do that: whoever
// reads packets there has to look at each one's interface.
func Control(name string) func(network, address string, raw syscall.RawConn) error {
	return func(_, _ string, raw syscall.RawConn) error { return bindTo(raw, name) }
}

// Listen is the configuration of sockets on one interface.
func Listen(name string) *net.ListenConfig {
	lc := &net.ListenConfig{Control: Control(name)}
	lc.SetMultipathTCP(false) // its paths are by all interfaces
	return lc
}

// Remedy says what to do about a socket that could not be opened, "" for what is not
// known. taken is for a port that another program has.
func Remedy(err error, taken string) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "; " + taken
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "; the address is not this machine's: give it that one or name another"
	case errors.Is(err, fs.ErrPermission):
		return "; run this as root, or give it CAP_NET_BIND_SERVICE and CAP_NET_RAW"
	}
	return ""
}
