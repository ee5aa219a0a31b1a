package apitest

import (
	"sync"

	"machined/api"
)

// Log is an api.Log that keeps the last Keep lines.
type Log struct {
	Keep int

	mu    sync.Mutex
	lines []api.LogEntry
	first uint64 // position of lines[0]
	moved chan struct{}
}

// Write adds a line.
func (l *Log) Write(unixNanos int64, text string, stderr bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, api.LogEntry{UnixNanos: unixNanos, Stderr: stderr, Text: []byte(text)})
	if drop := len(l.lines) - l.Keep; drop > 0 {
		l.lines, l.first = l.lines[drop:], l.first+uint64(drop)
	}
	if l.moved != nil {
		close(l.moved)
		l.moved = nil
	}
}

// Tail implements api.Log.
func (l *Log) Tail(n int) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 || n > len(l.lines) {
		n = len(l.lines)
	}
	return l.first + uint64(len(l.lines)-n)
}

// Read implements api.Log. It returns two lines at most.
func (l *Log) Read(from uint64, out []api.LogEntry) (entries []api.LogEntry, next, lost uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from < l.first {
		lost, from = l.first-from, l.first
	}
	lines := l.lines[min(from-l.first, uint64(len(l.lines))):]
	lines = lines[:min(len(lines), 2)]
	return append(out, lines...), from + uint64(len(lines)), lost
}

// Moved implements api.Log.
func (l *Log) Moved() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.moved == nil {
		l.moved = make(chan struct{})
	}
	return l.moved
}
