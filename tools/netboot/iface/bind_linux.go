package iface

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// bindTo has broadcasts go where no route leads, too.
func bindTo(raw syscall.RawConn, name string) error {
	var bound error
	if err := raw.Control(func(fd uintptr) { bound = unix.BindToDevice(int(fd), name) }); err != nil {
		return err
	}
	return bound
}
