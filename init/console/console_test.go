package console

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

// screen is a console that keeps what it shows, and may refuse or stop.
type screen struct {
	mu      sync.Mutex
	text    bytes.Buffer
	stopped chan struct{} // while not nil and open, writes block
	err     error
}

func (s *screen) Write(b []byte) (int, error) {
	if s.stopped != nil {
		<-s.stopped
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func at(seconds float64) func() int64 {
	return func() int64 { return int64(seconds * 1e9) }
}

const soon = 10 * time.Second

func TestLines(t *testing.T) {
	for _, c := range []struct {
		name, component, sentence, want string
	}{
		{"plain", "boot", "Done.", "boot: Done."},
		{"line break at the end", "boot", "Done.\n\n", "boot: Done."},
		// A payload's output that poses as a line of ours.
		{"line break inside", "kiosk", "x\n[     1.000] shutdown: Going down.", "kiosk: x | [     1.000] shutdown: Going down."},
		{"carriage return", "kiosk", "x\r[     1.000] shutdown: Going down.", "kiosk: x?[     1.000] shutdown: Going down."},
		{"component with line break", "a\nb", "x", "a?b: x"},
		{"escape sequence", "kiosk", "\x1b[2J\x1b]0;title\a", "kiosk: ?[2J?]0;title?"},
		// ECMA-48: U+009B is "ESC [" in one character, U+0090 "ESC P".
		{"escape sequence of eight bits", "kiosk", "\u009b2J \u0090x\u009c", "kiosk: ?2J ?x?"},
		{"bytes that are no UTF-8", "kiosk", "\x9b2J \xff", "kiosk: \ufffd2J \ufffd"},
		{"zero, backspace, delete", "kiosk", "\x00a\bb\x7f", "kiosk: ?a?b?"},
		{"tab", "kiosk", "a\tb", "kiosk: a\tb"},
		{"other scripts", "kiosk", "Grüße, 日本", "kiosk: Grüße, 日本"},
		{"empty", "kiosk", "", "kiosk: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s screen
			l := New(at(12.3456), &s)
			l.Printf(c.component, "%s", c.sentence)
			l.Flush(soon)
			if want := "[    12.346] " + c.want + "\n"; s.String() != want {
				t.Errorf("Printf(%q, %q) showed %q; want %q", c.component, c.sentence, s.String(), want)
			}
		})
	}
}

func TestAllConsolesInOrder(t *testing.T) {
	var first, second screen
	broken := screen{err: errors.New("unplugged")}
	l := New(at(1), &first, &broken, &second)
	want := ""
	for i := range 400 {
		l.Printf("boot", "Line %d.", i)
		want += fmt.Sprintf("[     1.000] boot: Line %d.\n", i)
	}
	l.Flush(soon)
	for name, s := range map[string]*screen{"first": &first, "second": &second} {
		if s.String() != want {
			t.Errorf("the %s console shows %d bytes; want the %d of all lines in order", name, len(s.String()), len(want))
		}
	}
}

// TestNeverBlocks tells of a serial port whose other end held the line: the
// boot stood still with the first message that did not fit, and the watchdog
// made a boot loop of it. A healthy console beside it must go on, too.
func TestNeverBlocks(t *testing.T) {
	stuck := &screen{stopped: make(chan struct{})}
	healthy := &screen{}
	l := New(at(1), stuck, healthy)
	began := time.Now()
	for range 10 * queueLines {
		l.Printf("boot", "Hello.")
	}
	if took := time.Since(began); took > soon {
		t.Errorf("printing to a stuck console took %s; want it at once", took)
	}
	began = time.Now()
	l.Flush(50 * time.Millisecond)
	if took := time.Since(began); took < 50*time.Millisecond || took > soon {
		t.Errorf("Flush(50ms) of a stuck console took %s", took)
	}
	shown := func(s *screen) int { return strings.Count(s.String(), "Hello.") }
	for end := time.Now().Add(soon); shown(healthy) < queueLines && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := shown(healthy); n < queueLines {
		t.Errorf("the healthy console shows %d lines; want %d at least", n, queueLines)
	}
	close(stuck.stopped)
	l.Flush(soon)
	checkCount(t, stuck.String(), 10*queueLines)
	checkCount(t, healthy.String(), 10*queueLines)
}

// checkCount adds the lines that are shown to those that are reported missing.
func checkCount(t *testing.T, text string, want int) {
	t.Helper()
	got := strings.Count(text, "Hello.")
	for line := range strings.Lines(text) {
		var dropped int
		_, rest, _ := strings.Cut(line, "console: ")
		if n, _ := fmt.Sscanf(rest, "dropped %d lines", &dropped); n == 1 {
			got += dropped
		}
	}
	if got != want {
		t.Errorf("the console shows or counts %d lines; want all %d", got, want)
	}
}

func TestFlushWithoutConsole(t *testing.T) {
	l := New(at(1))
	l.Printf("boot", "Hello.")
	l.Flush(soon) // returns
}

func TestManyWriters(t *testing.T) {
	var s screen
	l := New(at(1), &s)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				l.Printf("part", "%s", strings.Repeat(string(rune('a'+i)), 100))
			}
		})
	}
	all.Wait()
	l.Flush(soon)
	for line := range strings.Lines(s.String()) {
		_, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "part: ")
		if len(text) != 100 || strings.Trim(text, text[:1]) != "" {
			t.Errorf("line %q; want 100 times the same letter", line)
		}
	}
}

var _ io.Writer = (*screen)(nil)

// TestFollow: machined's own log is followed as it is shown, and what payloads
// print is not in it.
func TestFollow(t *testing.T) {
	var s screen
	l := New(at(1), &s)
	var got []string
	l.Follow(func(component, sentence string) { got = append(got, component+": "+sentence) })
	l.Printf("boot", "one\ntwo\x1b")
	l.Output("web", "mine")
	l.Flush(soon)
	if want := []string{"boot: one | two?"}; len(got) != 1 || got[0] != want[0] || !strings.Contains(s.String(), "web: mine\n") {
		t.Errorf("followed %q of %q; want %q", got, s.String(), want)
	}
}
