package qemu

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// brokenWriter is a terminal that was closed.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("closed") }

func TestWatcherPassesOn(t *testing.T) {
	var seen bytes.Buffer
	w := newWatcher(&seen)
	for _, s := range []string{"one ", "two\n"} {
		if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
			t.Errorf("Write(%q) = %d, %v; want %d", s, n, err, len(s))
		}
	}
	if seen.String() != "one two\n" {
		t.Errorf("passed on %q; want what was written", seen.String())
	}
	// A console that nobody watches any more must not stop the machine.
	if n, err := newWatcher(brokenWriter{}).Write([]byte("x")); n != 1 || err != nil {
		t.Errorf("Write() = %d, %v with a broken console; want 1", n, err)
	}
}

func TestWatcherRemembersTheEnd(t *testing.T) {
	w := newWatcher(nil)
	const line = "0123456789abcdef: a line of the console\n"
	for range 5 * keep / len(line) {
		if _, err := w.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
		if n := len(w.text); n > 2*keep {
			t.Fatalf("remembers %d bytes; want at most %d", n, 2*keep)
		}
	}
	fmt.Fprint(w, "the end")
	if n := len(w.snapshot()); n < keep {
		t.Errorf("remembers %d bytes; want at least %d", n, keep)
	}
	if !bytes.HasSuffix(w.snapshot(), []byte("the end")) {
		t.Error("the last bytes are not remembered")
	}
}

func TestWatcherCount(t *testing.T) {
	w := newWatcher(nil)
	for i, s := range []string{"the node ", "is u", "p\nthe node is up\n"} {
		fmt.Fprint(w, s)
		// A text that comes in two writes is found.
		want := []int{0, 0, 2}[i]
		if got := w.count("is up"); got != want {
			t.Errorf("count() = %d after %q; want %d", got, s, want)
		}
	}
}

func TestWatcherTail(t *testing.T) {
	w := newWatcher(nil)
	if got := w.tail(); got != "" {
		t.Errorf("tail() = %q before anything; want nothing", got)
	}
	for i := range 20 {
		fmt.Fprintf(w, "line %d\n", i)
	}
	got := strings.Split(w.tail(), "\n")
	if len(got) != 12 || got[0] != "line 8" || got[11] != "line 19" {
		t.Errorf("tail() = %q; want lines 8 to 19", got)
	}
}

func TestPoweredDown(t *testing.T) {
	for _, c := range []struct {
		name, console string
		want          bool
	}{
		{"nothing", "", false},
		{"powered off", "[    9.1] reboot: Power down\r\n", true},
		{"halted", "[    9.1] reboot: System halted\n\n", true},
		{"restarted", "[    9.1] reboot: Restarting system\r\n", false},
		{"went on", "[    9.1] reboot: Power down\r\n[    0.0] Booting Linux\r\n", false},
		{"a log line about it", "will say reboot: Power down soon\n", false},
	} {
		w := newWatcher(nil)
		fmt.Fprint(w, c.console)
		if got := w.poweredDown(); got != c.want {
			t.Errorf("poweredDown(%s) = %v; want %v", c.name, got, c.want)
		}
	}
}
