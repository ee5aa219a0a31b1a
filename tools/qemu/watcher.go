package qemu

import (
	"bytes"
	"io"
	"sync"
)

// keep is how much of the console a watcher remembers, in bytes.
const keep = 256 << 10

// watcher passes the console on and remembers the end of it.
type watcher struct {
	next io.Writer

	mu   sync.Mutex
	text []byte
}

func newWatcher(next io.Writer) *watcher {
	return &watcher{next: next}
}

func (w *watcher) Write(b []byte) (int, error) {
	w.mu.Lock()
	w.text = append(w.text, b...)
	if len(w.text) > 2*keep {
		w.text = append(w.text[:0], w.text[len(w.text)-keep:]...)
	}
	w.mu.Unlock()
	if w.next != nil {
		// Who watches may go away; the machine goes on.
		_, _ = w.next.Write(b)
	}
	return len(b), nil
}

// snapshot returns what is remembered.
func (w *watcher) snapshot() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.text)
}

// count returns how often text is in what is remembered.
func (w *watcher) count(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Count(w.text, []byte(text))
}

// tail returns the last lines, for an error message.
func (w *watcher) tail() string {
	text := w.snapshot()
	const lines = 12
	parts := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(parts[max(0, len(parts)-lines):], []byte("\n")))
}

// poweredDown reports whether the kernel has said that it switches the machine
// off, and nothing came after it.
func (w *watcher) poweredDown() bool {
	text := bytes.TrimSpace(w.snapshot())
	return bytes.HasSuffix(text, []byte("reboot: Power down")) || bytes.HasSuffix(text, []byte("reboot: System halted"))
}
