// Package console prints machined's log to the consoles of the machine, one
// sentence a line, without ever blocking its caller.
package console

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// queueLines bounds what waits for a slow console. A serial line at 115,200
// baud prints about a hundred lines a second.
const queueLines = 512

// Log queues lines for a writer that may block, such as a serial port whose
// other end asserted flow control. What does not fit is dropped and counted.
type Log struct {
	sinceBoot func() int64
	lines     chan string
	flushes   chan chan struct{}

	mu      sync.Mutex
	dropped int
}

// New starts a log on w; sinceBoot gives the nanoseconds since boot.
func New(w io.Writer, sinceBoot func() int64) *Log {
	l := &Log{sinceBoot: sinceBoot, lines: make(chan string, queueLines), flushes: make(chan chan struct{})}
	go l.write(w)
	return l
}

// Printf prints one line: the seconds since boot, the component, a sentence.
// Line breaks inside of it become visible, so that what a payload prints can
// not pose as a line of another component.
func (l *Log) Printf(component, format string, args ...any) {
	sentence := strings.ReplaceAll(strings.TrimRight(fmt.Sprintf(format, args...), "\n"), "\n", " | ")
	sentence = strings.Map(printable, sentence)
	line := fmt.Sprintf("[%10.3f] %s: %s\n", time.Duration(l.sinceBoot()).Seconds(), component, sentence)
	select {
	case l.lines <- line:
	default:
		l.mu.Lock()
		l.dropped++
		l.mu.Unlock()
	}
}

// printable keeps terminal escape sequences of a payload off the console.
func printable(r rune) rune {
	if r < ' ' && r != '\t' || r == 0x7f {
		return '?'
	}
	return r
}

// Flush waits until all that was printed so far is written, or for timeout.
func (l *Log) Flush(timeout time.Duration) {
	done := make(chan struct{})
	limit := time.After(timeout)
	select {
	case l.flushes <- done:
	case <-limit:
		return
	}
	select {
	case <-done:
	case <-limit:
	}
}

func (l *Log) write(w io.Writer) {
	for {
		select {
		case line := <-l.lines:
			l.writeLine(w, line)
		case done := <-l.flushes:
			for n := len(l.lines); n > 0; n-- {
				l.writeLine(w, <-l.lines)
			}
			close(done)
		}
	}
}

// writeLine drops what the console refuses: there is nowhere to report it.
func (l *Log) writeLine(w io.Writer, line string) {
	l.mu.Lock()
	dropped := l.dropped
	l.dropped = 0
	l.mu.Unlock()
	_, _ = io.WriteString(w, line)
	if dropped > 0 {
		_, _ = fmt.Fprintf(w, "[%10.3f] console: dropped %d lines that came faster than the console prints.\n",
			time.Duration(l.sinceBoot()).Seconds(), dropped)
	}
}
