package dhcp

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// bindTo has a socket receive what comes by one interface, and send there:
// broadcasts go where no route leads.
func bindTo(raw syscall.RawConn, ifname string) error {
	var bound error
	if err := raw.Control(func(fd uintptr) { bound = unix.BindToDevice(int(fd), ifname) }); err != nil {
		return err
	}
	return bound
}
