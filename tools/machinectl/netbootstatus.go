package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"machined/tools/netboot/registry"
	"machined/tools/progress"
)

const (
	// statusEvery is the least time between two drawings.
	statusEvery = 250 * time.Millisecond
	// eraseLine goes to the line's first column and clears it (ECMA-48, EL).
	eraseLine = "\r\x1b[K"
	// plainWidth is the width of a terminal that does not tell.
	plainWidth = 80
)

// statusLine is the last line of a terminal, which tells what is on its way to
// boards. The log scrolls above it.
type statusLine struct {
	w     io.Writer
	width func() int // columns

	mu   sync.Mutex
	text string
}

// newStatusLine returns nil where w is no terminal.
func newStatusLine(w io.Writer) *statusLine {
	f, ok := w.(*os.File)
	if !ok || !progress.IsTerminal(w) {
		return nil
	}
	return &statusLine{w: w, width: func() int {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
		return plainWidth
	}}
}

// Write implements io.Writer for whole lines of a log.
func (l *statusLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text == "" {
		return l.w.Write(p)
	}
	if _, err := io.WriteString(l.w, eraseLine); err != nil {
		return 0, err
	}
	n, err := l.w.Write(p)
	if err == nil {
		_, err = io.WriteString(l.w, l.text)
	}
	return n, err
}

// show draws a text in place of the one before.
func (l *statusLine) show(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text == l.text {
		return
	}
	l.text = text
	_, _ = io.WriteString(l.w, eraseLine+text)
}

// follow draws what changes until the context ends, and clears the line then.
func (l *statusLine) follow(ctx context.Context, boards func(after uint64) ([]registry.Board, uint64, <-chan struct{})) {
	defer l.show("")
	for {
		list, _, changed := boards(0)
		// The last column stays free: some terminals go to the next line there.
		l.show(statusText(list, l.width()-1))
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		select { // what changes in between goes with it
		case <-time.After(statusEvery):
		case <-ctx.Done():
			return
		}
	}
}

// statusText is what is on its way, in at most width columns: "" for nothing.
func statusText(boards []registry.Board, width int) string {
	var parts []string
	for _, b := range boards {
		switch {
		case b.Stage == registry.Loading && b.Total > 0 && b.Bytes < b.Total:
			parts = append(parts, fmt.Sprintf("%s %s %d%% %.1f MB/s", b.ID, b.File, b.Percent, float64(b.Speed)/1e6))
		case b.Stage == registry.Installing:
			parts = append(parts, fmt.Sprintf("%s installs %d%%", b.ID, b.Percent))
		}
	}
	text := strings.Join(parts, " | ")
	if len(parts) > 1 {
		text = fmt.Sprintf("%d boards: %s", len(parts), text)
	}
	if len(text) > width { // all of it is ASCII
		return text[:max(width, 0)]
	}
	return text
}
