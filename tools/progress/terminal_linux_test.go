package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal returns a terminal, and a function that closes it and returns what
// was drawn on it.
func terminal(t *testing.T) (*os.File, func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		master.Close()
		t.Skipf("no terminals here: %v", err)
	}
	drawn := make(chan string)
	go func() {
		b, _ := io.ReadAll(master) // ends in EIO when the terminal is closed
		drawn <- string(b)
	}()
	return tty, func() string {
		tty.Close()
		text := <-drawn
		master.Close()
		return text
	}
}

func TestBytesDraws(t *testing.T) {
	tty, drawn := terminal(t)
	progress := Bytes(tty, "writing node.img")
	if progress == nil {
		t.Fatal("Bytes() = nil on a terminal; want a callback")
	}
	for done := int64(0); done <= 1000; done += 100 {
		progress(done, 1000)
	}
	if got := drawn(); !strings.Contains(got, "writing node.img") || !strings.Contains(got, "%") {
		t.Errorf("drawn: %q; want what is done, in percent", got)
	}
}

func TestSpinDraws(t *testing.T) {
	tty, drawn := terminal(t)
	stop := Spin(tty, "waiting for the API")
	time.Sleep(300 * time.Millisecond) // it draws five times a second
	stop()
	if got := drawn(); !strings.Contains(got, "waiting for the API") {
		t.Errorf("drawn: %q; want what is waited for", got)
	}
}
