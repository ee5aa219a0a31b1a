package linux

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// uevent is what the kernel says of a device that came, went or changed.
type uevent struct {
	subsystem string
	disk      string // of a block device: the whole disk's name
}

// errLost says that events were dropped: there were more than one could take.
var errLost = errors.New("device events were lost")

// parseUevent reads one message of the kernel: "add@/devices/…", and then
// KEY=VALUE, each with a zero byte behind it (lib/kobject_uevent.c).
func parseUevent(b []byte) (uevent, bool) {
	header, rest, ok := bytes.Cut(b, []byte{0})
	if !ok || !bytes.Contains(header, []byte("@/")) {
		return uevent{}, false // "libudev" is another's form of the same
	}
	var e uevent
	var devpath, devtype string
	for field := range bytes.SplitSeq(rest, []byte{0}) {
		key, value, _ := strings.Cut(string(field), "=")
		switch key {
		case "SUBSYSTEM":
			e.subsystem = value
		case "DEVPATH":
			devpath = value
		case "DEVTYPE":
			devtype = value
		}
	}
	if devtype == "partition" {
		devpath = path.Dir(devpath)
	}
	e.disk = path.Base(devpath)
	return e, e.subsystem != "" && devpath != ""
}

// ueventSocket receives the kernel's events.
type ueventSocket struct {
	file *os.File
	buf  []byte
}

// listenUevents opens a netlink socket of NETLINK_KOBJECT_UEVENT.
func listenUevents() (ueventSource, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("open a socket for device events: %w", err)
	}
	const fromKernel = 1 // the group; udev has the next one
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: fromKernel}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bind a socket for device events: %w", err)
	}
	return &ueventSocket{file: os.NewFile(uintptr(fd), "device events"), buf: make([]byte, 16<<10)}, nil
}

// next waits for an event. It ends with an error when the socket is closed.
func (s *ueventSocket) next() (uevent, error) {
	conn, err := s.file.SyscallConn()
	if err != nil {
		return uevent{}, err
	}
	for {
		n, from, failed := 0, unix.Sockaddr(nil), error(nil)
		err := conn.Read(func(fd uintptr) bool {
			n, from, failed = unix.Recvfrom(int(fd), s.buf, 0)
			return !errors.Is(failed, unix.EAGAIN)
		})
		switch {
		case err != nil:
			return uevent{}, err
		case errors.Is(failed, unix.EINTR):
			continue
		case errors.Is(failed, unix.ENOBUFS):
			return uevent{}, errLost
		case failed != nil:
			return uevent{}, failed
		}
		// Any program may send to the group.
		if sender, ok := from.(*unix.SockaddrNetlink); !ok || sender.Pid != 0 {
			continue
		}
		if e, ok := parseUevent(s.buf[:n]); ok {
			return e, nil
		}
	}
}

func (s *ueventSocket) Close() error { return s.file.Close() }
