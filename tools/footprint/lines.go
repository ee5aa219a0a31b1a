package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// lines is a console that can be searched while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func newLines() *lines { return &lines{} }

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// wait waits until text has appeared n times. It looks often: a time is
// measured by it.
func (l *lines) wait(text string, n int, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for strings.Count(l.String(), text) < n {
		if time.Now().After(deadline) {
			return fmt.Errorf("the console does not show %q %d times within %s; it shows:\n%s", text, n, timeout, l)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

// lastNumber returns the number behind the last occurrence of key.
func (l *lines) lastNumber(key string) (int64, error) {
	text := l.String()
	i := strings.LastIndex(text, key)
	if i < 0 {
		return 0, fmt.Errorf("the console does not show %q", key)
	}
	fields := strings.Fields(text[i+len(key):])
	if len(fields) == 0 {
		return 0, fmt.Errorf("the console shows nothing behind %q", key)
	}
	n, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the number behind %q: %w", key, err)
	}
	return n, nil
}
