package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"machined/tools/lab"
	"machined/tools/qemu"
)

// sample is what machined has at a time since the start of the load.
type sample struct {
	at     time.Duration
	values [3]float64
}

// metric is one of a sample's values, and by how much it may be more at the end:
// a part of what it was, and a constant.
type metric struct {
	name, field string
	part, plus  float64
}

func metrics() [3]metric {
	return [3]metric{
		// The garbage collector's own rhythm.
		{"rss_anon_kb", "rss_anon_kb", 0.05, 384},
		// Clients that are there when one looks, and not when the other does.
		{"goroutines", "goroutines", 0.10, 6},
		{"open_files", "open_files", 0.10, 3},
	}
}

// watch takes samples until ctx ends.
func watch(ctx context.Context, vm *qemu.VM, bundle string, length time.Duration, stderr io.Writer) ([]sample, error) {
	begun := time.Now()
	var samples []sample
	misses := 0
	for pause(ctx, sampleEvery) {
		s, err := take(ctx, vm, bundle)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			// A node that does not answer for a while is a finding.
			if misses++; misses > 6 {
				return nil, fmt.Errorf("the node does not answer: %w", err)
			}
			continue
		}
		misses = 0
		s.at = time.Since(begun)
		samples = append(samples, s)
		fmt.Fprintf(stderr, "\rsoak: %s of %s  rss_anon %.0f kB  goroutines %.0f  files %.0f   ",
			s.at.Round(time.Second), length, s.values[0], s.values[1], s.values[2])
	}
	fmt.Fprintln(stderr)
	return samples, nil
}

func take(ctx context.Context, vm *qemu.VM, bundle string) (s sample, err error) {
	c, err := lab.Dial(vm, bundle)
	if err != nil {
		return s, err
	}
	defer c.Close()
	all, err := lab.Fields(ctx, c, "MemoryStatus")
	if err != nil {
		return s, err
	}
	for i, m := range metrics() {
		if s.values[i], err = strconv.ParseFloat(all["memory"][m.field], 64); err != nil {
			return s, fmt.Errorf("read %s: %w", m.field, err)
		}
	}
	return s, nil
}

// report prints how each value went, and whether it ended where it was.
func report(w io.Writer, samples []sample) bool {
	if len(samples) == 0 || samples[len(samples)-1].at < warmUp+2*window {
		fmt.Fprintln(w, "too short: no judgement")
		return false
	}
	last := samples[len(samples)-1].at
	good := true
	for i, m := range metrics() {
		early := median(samples, i, warmUp, warmUp+window)
		late := median(samples, i, last-window, last+1)
		most := early*(1+m.part) + m.plus
		verdict := "ok"
		switch {
		case early == 0 || late == 0:
			verdict, good = "NOT MEASURED", false
		case late > most:
			verdict, good = "GROWN", false
		}
		fmt.Fprintf(w, "%-12s %s\n", m.name, plot(samples, i))
		fmt.Fprintf(w, "%s_after_minute_1=%.0f\n%s_at_end=%.0f\n%s_limit=%.0f %s\n", m.name, early, m.name, late, m.name, most, verdict)
	}
	return good
}

func median(samples []sample, value int, from, to time.Duration) float64 {
	var all []float64
	for _, s := range samples {
		if s.at >= from && s.at < to {
			all = append(all, s.values[value])
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// plotWidth is the number of columns of a plot.
const plotWidth = 60

// plot draws a value over time, from 0 to its highest.
func plot(samples []sample, value int) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	highest := 0.0
	for _, s := range samples {
		highest = max(highest, s.values[value])
	}
	var b strings.Builder
	columns := min(plotWidth, len(samples))
	for c := range columns {
		v := samples[c*len(samples)/columns].values[value]
		if highest > 0 {
			b.WriteRune(levels[min(int(v/highest*float64(len(levels))), len(levels)-1)])
		}
	}
	return b.String()
}
