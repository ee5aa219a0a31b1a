// Package console prints machined's log to the consoles of the machine, one
// sentence a line, without ever blocking its caller.
package console

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// queueLines bounds what waits for a slow console. A serial line at 115,200
// baud prints about a hundred lines a second.
const queueLines = 512

// Log queues lines for writers that may block, such as a serial port whose
// other end asserted flow control. What does not fit is dropped and counted.
type Log struct {
	sinceBoot func() int64
	outs      []*out
	follower  atomic.Pointer[func(component, sentence string)]
}

// out is one console and the lines that wait for it.
type out struct {
	w       io.Writer
	lines   chan string
	flushes chan chan struct{}

	mu      sync.Mutex
	dropped int
}

// New starts a log on all of the writers, none of which can hold up another;
// sinceBoot gives the nanoseconds since boot.
func New(sinceBoot func() int64, writers ...io.Writer) *Log {
	l := &Log{sinceBoot: sinceBoot}
	for _, w := range writers {
		o := &out{w: w, lines: make(chan string, queueLines), flushes: make(chan chan struct{})}
		l.outs = append(l.outs, o)
		go o.run(l)
	}
	return l
}

// Printf prints one line: the seconds since boot, the component, a sentence.
// Line breaks inside of it become visible, so that what a payload prints can
// not pose as a line of another component.
func (l *Log) Printf(component, format string, args ...any) {
	sentence := l.Output(component, format, args...)
	if f := l.follower.Load(); f != nil {
		(*f)(component, sentence)
	}
}

// Follow has f called with each line of Printf from now on, by its caller.
func (l *Log) Follow(f func(component, sentence string)) { l.follower.Store(&f) }

// Output is Printf for what a payload has printed, which is not machined's own
// log. It returns the sentence as it is shown.
func (l *Log) Output(component, format string, args ...any) string {
	sentence := strings.ReplaceAll(strings.TrimRight(fmt.Sprintf(format, args...), "\n"), "\n", " | ")
	sentence = strings.Map(printable, sentence)
	line := l.format(strings.Map(printable, component), sentence)
	for _, o := range l.outs {
		select {
		case o.lines <- line:
		default:
			o.mu.Lock()
			o.dropped++
			o.mu.Unlock()
		}
	}
	return sentence
}

func (l *Log) format(component, sentence string) string {
	return fmt.Sprintf("[%10.3f] %s: %s\n", time.Duration(l.sinceBoot()).Seconds(), component, sentence)
}

// printable keeps terminal escape sequences of a payload off the console. The
// characters from 0x80 to 0x9f (C1 of ECMA-48) begin such sequences, too.
func printable(r rune) rune {
	if r < ' ' && r != '\t' || r >= 0x7f && r <= 0x9f {
		return '?'
	}
	return r
}

// Flush waits until all that was printed so far is written, or for timeout.
func (l *Log) Flush(timeout time.Duration) {
	limit := time.After(timeout)
	for _, o := range l.outs {
		done := make(chan struct{})
		select {
		case o.flushes <- done:
		case <-limit:
			return
		}
		select {
		case <-done:
		case <-limit:
			return
		}
	}
}

func (o *out) run(l *Log) {
	for {
		select {
		case line := <-o.lines:
			o.write(l, line)
		case done := <-o.flushes:
			for n := len(o.lines); n > 0; n-- {
				o.write(l, <-o.lines)
			}
			close(done)
		}
	}
}

// write drops what the console refuses: there is nowhere to report it.
func (o *out) write(l *Log, line string) {
	_, _ = io.WriteString(o.w, line)
	o.mu.Lock()
	dropped := o.dropped
	o.dropped = 0
	o.mu.Unlock()
	if dropped > 0 {
		_, _ = io.WriteString(o.w, l.format("console", fmt.Sprintf("dropped %d lines that came faster than the console prints.", dropped)))
	}
}
