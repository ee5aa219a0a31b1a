package main

import (
	"os"
	"strings"
	"sync"
	"time"

	"machined/init/supervise/logring"
)

const (
	// machinedLog is the name of machined's own lines among those of the services.
	machinedLog = "machined"
	// consoleLines is how many lines a second of one service go to the console: a
	// serial line prints about a hundred in all.
	consoleLines = 20
	// tailLines and tailBytes bound what is shown of a service that has failed.
	tailLines, tailBytes = 5, 512
	// outputSeparator is between the lines of what a service printed last.
	outputSeparator = " | "
)

// outputs are the pipes that services write to. They outlive the services'
// restarts; the files are kept, since one that is collected closes its descriptor.
type outputs struct {
	pipes map[string]pipes
}

// pipes are those of one service, stdout's and stderr's, and the one bound for
// what both bring to the console.
type pipes struct {
	files [2]*os.File
	limit *limiter
}

// output returns the descriptors for a service's output.
func (n *node) output(id string) (stdout, stderr int) {
	if n.outputs.pipes == nil {
		n.outputs.pipes = make(map[string]pipes)
	}
	p, ok := n.outputs.pipes[id]
	if !ok {
		p.limit = &limiter{print: func(format string, args ...any) { n.log.Output(id, format, args...) }}
	}
	for i, stream := range []logring.Stream{logring.Stdout, logring.Stderr} {
		if p.files[i] == nil { // also when there was none to be had last time
			p.files[i] = n.openOutput(id, n.rings.Ring(id, 0), stream, p.limit)
		}
	}
	n.outputs.pipes[id] = p
	return descriptor(p.files[0]), descriptor(p.files[1])
}

func descriptor(f *os.File) int {
	if f == nil {
		return -1
	}
	return int(f.Fd())
}

// closeOutputs closes the pipes of services that are not there any more. Their
// lines are kept.
func (n *node) closeOutputs(there func(id string) bool) {
	before := len(n.outputs.pipes)
	for id, p := range n.outputs.pipes {
		if there(id) {
			continue
		}
		for _, f := range p.files {
			if f != nil {
				_ = f.Close()
			}
		}
		delete(n.outputs.pipes, id)
	}
	if len(n.outputs.pipes) < before {
		n.trimLogs()
	}
}

// goneLogs is how many logs are kept of services and containers that are not in
// the config any more. Each takes from the room of all others.
const goneLogs = 8

// trimLogs forgets the oldest of those.
func (n *node) trimLogs() {
	n.rings.Trim(goneLogs, func(id string) bool {
		if pod, ok := strings.CutPrefix(id, podLogPrefix); ok {
			pod, _, _ = strings.Cut(pod, "/")
			return n.runsPod(pod)
		}
		return id == machinedLog || n.supervisor.Has(id)
	})
}

// openOutput returns a file whose lines go to the service's ring and to the
// console, nil when there is none to be had.
func (n *node) openOutput(id string, ring *logring.Ring, stream logring.Stream, c *limiter) *os.File {
	r, w, err := os.Pipe()
	if err != nil {
		n.log.Printf(id, "Its output is lost: %v.", err)
		return nil
	}
	n.spawn(id, func() {
		defer r.Close()
		_ = logring.Lines(r, func(text []byte) {
			ring.Append(n.clock.Now(), stream, text)
			c.line(text)
		})
	})
	return w
}

// tail returns what a service printed last, its lines with outputSeparator between.
func (n *node) tail(id string) string {
	ring := n.rings.Find(id)
	if ring == nil {
		return ""
	}
	entries, _, _ := ring.Read(ring.Tail(tailLines), logring.DefaultBytes)
	var lines []string
	for _, e := range entries {
		lines = append(lines, e.Text)
	}
	text := strings.ToValidUTF8(strings.Join(lines, outputSeparator), "?")
	if len(text) > tailBytes {
		text = "…" + strings.ToValidUTF8(text[len(text)-tailBytes:], "")
	}
	return text
}

// limiter lets a number of lines a second through to the console, and then says
// how many it has kept back.
type limiter struct {
	print func(format string, args ...any)

	mu    sync.Mutex
	lines int // in this second
	until time.Time
}

func (l *limiter) line(text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	// A second in which lines are kept back is ended by tell alone, or what it was
	// to tell of would be forgotten, and another second's lines let through.
	if l.lines <= consoleLines && now.After(l.until) {
		l.until, l.lines = now.Add(time.Second), 0
	}
	l.lines++
	switch {
	case l.lines <= consoleLines:
		l.print("%s", text)
	case l.lines == consoleLines+1:
		time.AfterFunc(l.until.Sub(now), l.tell)
	}
}

// tell says at the end of a second how many lines it has kept back.
func (l *limiter) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := l.lines - consoleLines; left > 0 {
		l.print("(%d more lines; all that are kept are in its log.)", left)
	}
	l.until, l.lines = time.Time{}, 0
}
