package main

import (
	"fmt"
	"io"
	"time"
)

// tail is how many of the last events a failure shows.
const tail = 40

// trace is what happened, as a hash of all and the text of the last.
type trace struct {
	hash    uint64
	last    []string
	verbose io.Writer
}

func newTrace(verbose io.Writer) trace { return trace{hash: 14695981039346656037, verbose: verbose} }

// add notes an event. The hash is FNV-1a.
func (t *trace) add(at time.Duration, format string, args ...any) {
	text := fmt.Sprintf("%12.3fs  ", at.Seconds()) + fmt.Sprintf(format, args...)
	t.sum(text)
	if len(t.last) == 2*tail {
		t.last = append(t.last[:0], t.last[tail:]...)
	}
	t.last = append(t.last, text)
	if t.verbose != nil {
		fmt.Fprintln(t.verbose, text)
	}
}

// detail prints what only a person who follows one seed wants to know.
func (t *trace) detail(at time.Duration, format string, args ...any) {
	if t.verbose != nil {
		fmt.Fprintf(t.verbose, "%12.3fs      "+format+"\n", append([]any{at.Seconds()}, args...)...)
	}
}

func (t *trace) sum(text string) {
	for i := range len(text) {
		t.hash = (t.hash ^ uint64(text[i])) * 1099511628211
	}
}

// tail returns the text of the last events.
func (t *trace) tail() []string { return t.last[max(0, len(t.last)-tail):] }

// counts is what a run has exercised.
type counts struct {
	passes, faults, cuts, restarts, reboots, configs       int
	chaos, naks, leases, provisions, wipes, lost, accounts int
	refused, failed, ready, synced                         int
	pods, crashes, foreign, pulls                          int
	simulated                                              time.Duration
}

func (c *counts) add(o counts) {
	for _, f := range [][2]*int{
		{&c.passes, &o.passes}, {&c.faults, &o.faults}, {&c.cuts, &o.cuts}, {&c.restarts, &o.restarts}, {&c.reboots, &o.reboots},
		{&c.configs, &o.configs}, {&c.chaos, &o.chaos}, {&c.naks, &o.naks}, {&c.leases, &o.leases}, {&c.provisions, &o.provisions},
		{&c.wipes, &o.wipes}, {&c.lost, &o.lost}, {&c.accounts, &o.accounts}, {&c.refused, &o.refused}, {&c.failed, &o.failed},
		{&c.ready, &o.ready}, {&c.synced, &o.synced}, {&c.pods, &o.pods}, {&c.crashes, &o.crashes}, {&c.foreign, &o.foreign}, {&c.pulls, &o.pulls},
	} {
		*f[0] += *f[1]
	}
	c.simulated += o.simulated
}

func (c *counts) String() string {
	return fmt.Sprintf("%d events of chaos: %d faults, %d power cuts, %d restarts, %d reboots, %d configs; %d leases, %d refusals by servers; "+
		"%d provisionings, %d wipes; %d volumes ready, %d refused, %d failed at the end, %d clocks right; "+
		"%d containers ended, %d pulls, %d foreign pods, %d pods run at the end; %d watches compared, %d fell behind",
		c.chaos, c.faults, c.cuts, c.restarts, c.reboots, c.configs, c.leases, c.naks, c.provisions, c.wipes,
		c.ready, c.refused, c.failed, c.synced, c.crashes, c.pulls, c.foreign, c.pods, c.accounts, c.lost)
}
