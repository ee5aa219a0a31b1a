package main

import (
	"strings"
	"testing"
	"time"
)

// course makes samples of which the first value goes from one number to another
// after the first two minutes.
func course(from, to float64, length time.Duration) []sample {
	var out []sample
	for at := time.Duration(0); at <= length; at += sampleEvery {
		s := sample{at: at, values: [3]float64{from, 40, 20}}
		if at > warmUp+window {
			s.values[0] = from + (to-from)*float64(at-warmUp-window)/float64(length-warmUp-window)
		}
		out = append(out, s)
	}
	return out
}

func TestReport(t *testing.T) {
	for _, tt := range []struct {
		name    string
		samples []sample
		good    bool
		says    string
	}{
		{"flat", course(6000, 6000, 10*time.Minute), true, "rss_anon_kb_at_end=6000"},
		{"within the collector's rhythm", course(6000, 6300, 10*time.Minute), true, "ok"},
		{"grown", course(6000, 9000, 10*time.Minute), false, "GROWN"},
		{"shrunk", course(6000, 4000, 10*time.Minute), true, "ok"},
		{"short", course(6000, 6000, 2*time.Minute), false, "too short"},
		{"nothing", nil, false, "too short"},
	} {
		var out strings.Builder
		if got := report(&out, tt.samples); got != tt.good || !strings.Contains(out.String(), tt.says) {
			t.Errorf("%s: report = %v, %q; want %v with %q", tt.name, got, out.String(), tt.good, tt.says)
		}
	}
	if got := plot(course(1, 8, 4*time.Minute), 0); len([]rune(got)) == 0 || !strings.HasSuffix(got, "█") || !strings.HasPrefix(got, "▂") {
		t.Errorf("plot = %q; want it to rise", got)
	}
}
