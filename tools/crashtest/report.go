package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"machined/tools/crashtest/scenario"
	"machined/tools/progress"
)

// results are what was found of each backend in each mode. Job.Name is empty.
type results map[scenario.Job]*counts

func (r results) add(job scenario.Job, found counts) {
	job.Name = ""
	if job.Mode == scenario.Upgrade { // of what a real one has left
		job.Mode = scenario.Real
	}
	if r[job] == nil {
		r[job] = &counts{}
	}
	r[job].add(found)
}

// enoughPoints is how many cuts a backend has to have survived, in all scenarios.
const enoughPoints = 500

// shownFaults is how many faults are printed.
const shownFaults = 20

// print prints a line a backend and one in all, and returns an error if a cut
// was not survived, or a sabotage not found.
func (r results) print(w io.Writer, o options) error {
	var all, spoilt counts
	few, blind := 0, 0
	for _, b := range scenario.Backends() {
		c := r[scenario.Job{Backend: b.Name, Mode: scenario.Real}]
		if c == nil {
			continue
		}
		fmt.Fprintf(w, "backend=%s %s\n", b.Name, c)
		if c.points < o.least {
			few++
		}
		all.add(*c)
	}
	fmt.Fprintf(w, "all: %s seed=%d\n", &all, o.seed)
	for _, mode := range []scenario.Mode{scenario.NoFlush, scenario.NoOrder} {
		for _, b := range scenario.Backends() {
			c := r[scenario.Job{Backend: b.Name, Mode: mode}]
			if c == nil {
				continue
			}
			fmt.Fprintf(w, "sabotage=%s backend=%s cut_points=%d bricked=%d\n", mode, b.Name, c.points, c.bricked)
			if c.bricked == 0 {
				blind++
			}
			spoilt.add(*c)
		}
	}
	for i, f := range all.faults {
		if i == shownFaults {
			fmt.Fprintf(w, "and %d more\n", len(all.faults)-i)
			break
		}
		fmt.Fprintf(w, "FAULT seed %d, %s\n", o.seed, f)
	}
	switch {
	case all.bad() > 0:
		return fmt.Errorf("%d points were not survived", all.bad())
	case blind > 0:
		return fmt.Errorf("%d sabotages were not found: the test does not bite", blind)
	case few > 0:
		return fmt.Errorf("%d backends had fewer than %d points", few, o.least)
	}
	return nil
}

// bar draws what is done of a number of steps, for people. The function may be
// called from several goroutines.
func bar(w io.Writer, total int) (step func()) {
	if !progress.IsTerminal(w) {
		return func() {}
	}
	b := progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription("cutting the power"),
		progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	var mu sync.Mutex
	return func() {
		mu.Lock()
		defer mu.Unlock()
		_ = b.Add(1)
	}
}
