package netboottest

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal returns a terminal whose text is written to out until it is closed.
func terminal(t *testing.T, out io.Writer) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(out, master) }() // ends in EIO with the last who has the terminal
	return tty
}

// drawn is the line of a transfer that is under way, between two lines of the log.
var drawn = regexp.MustCompile(`\r\x1b\[K52-54-00-00-77-01 x86_64-uefi/uki\.efi [1-9][0-9]?% [0-9.]+ MB/s\r\x1b\[K`)

// TestTerminal shows a person at the server's terminal how a transfer goes.
func TestTerminal(t *testing.T) {
	need(t, "qemu-system-x86_64", ovmf)
	s := newServer(t, directory(t, x86), pool...)
	s.tty = true
	s.start()
	power(t, machine{n: 1, nic: noROM}).up(s)
	if !drawn.MatchString(s.said()) {
		t.Errorf("the terminal has %q; want a line that is redrawn", s.said())
	}
}
