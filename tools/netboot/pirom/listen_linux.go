package pirom

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Listen opens the socket that Configure wants, on the link of that name. It needs
// CAP_NET_BIND_SERVICE.
func Listen(link string) (*net.UDPConn, error) {
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = unix.BindToDevice(int(fd), link) })
		return errors.Join(err, failed)
	}}
	conn, err := lc.ListenPacket(context.Background(), "udp4", "0.0.0.0:68")
	if err != nil {
		return nil, fmt.Errorf("open port 68 on %s: %w", link, err)
	}
	return conn.(*net.UDPConn), nil
}
