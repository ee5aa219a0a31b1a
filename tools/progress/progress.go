// Package progress draws progress bars for people and stays silent where
// nobody watches.
package progress

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// IsTerminal reports whether a person is likely to read w as it is written.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Bytes returns a callback that draws a bar of the bytes that are done, and nil
// where w is no terminal.
func Bytes(w io.Writer, what string) func(done, total int64) {
	if !IsTerminal(w) {
		return nil
	}
	var bar *progressbar.ProgressBar
	return func(done, total int64) {
		if bar == nil {
			bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
				progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
		}
		_ = bar.Set64(done)
	}
}

// Spin draws the seconds of a wait whose length is unknown, until the function
// that it returns is called.
func Spin(w io.Writer, what string) (stop func()) {
	if !IsTerminal(w) {
		return func() {}
	}
	// The bar would draw itself from a goroutine of its own, in a race with the
	// one below; an interval of 0 keeps it from that.
	bar := progressbar.NewOptions(-1, progressbar.OptionSetSpinnerChangeInterval(0),
		progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionSetElapsedTime(true), progressbar.OptionSpinnerType(14), progressbar.OptionClearOnFinish())
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = bar.Add(1)
			case <-done:
				_ = bar.Finish()
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}
