package main

import (
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"

	"machined/tools/progress"
)

// simulateAll runs seeds on several cores, each of them in one goroutine.
func simulateAll(from uint64, seeds, workers int, done func()) (counts, []outcome) {
	var (
		next     atomic.Uint64
		mu       sync.Mutex
		sum      counts
		failures []outcome
		wait     sync.WaitGroup
	)
	for range workers {
		wait.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= uint64(seeds) {
					return
				}
				o := simulate(from+i, nothing, nil)
				mu.Lock()
				sum.add(o.counts)
				if o.violation != nil {
					failures = append(failures, o)
				}
				done()
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	slices.SortFunc(failures, func(a, b outcome) int { return int(int64(a.seed) - int64(b.seed)) })
	return sum, failures
}

// bar returns what draws the progress, for people who watch.
func bar(w io.Writer, total int) (done func()) {
	if !progress.IsTerminal(w) {
		return func() {}
	}
	b := progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription("simulating"),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish())
	return func() { _ = b.Add(1) }
}
