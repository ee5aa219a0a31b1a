package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"machined/tools/crashtest/judge"
	"machined/tools/crashtest/replay"
	"machined/tools/crashtest/scenario"
)

// TestCommit is `make crash-test` with one scenario, and without what takes
// another guest.
func TestCommit(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a machine under emulation")
	}
	o := options{
		only: "commit", subsets: 1, seed: 1, fsckShare: 16, least: 200, workers: 2,
		keep: filepath.Join("..", "..", "build", "crashtest"),
	}
	r, err := cutEverywhere(t.Context(), o, os.Stderr)
	if (errors.Is(err, errMissing) || errors.Is(err, judge.ErrNoFsck)) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := r.print(&out, o); err != nil {
		t.Error(err)
	}
	t.Log("\n" + out.String())
}

// TestPrint has results that fail the run, and one that does not.
func TestPrint(t *testing.T) {
	good := func() results {
		r := results{}
		for _, b := range scenario.Backends() {
			r.add(scenario.Job{Backend: b.Name, Name: "commit", Mode: scenario.Real}, counts{points: 300, images: 10})
			r.add(scenario.Job{Backend: b.Name, Name: "fail", Mode: scenario.Real}, counts{points: 200, images: 10})
			for _, mode := range []scenario.Mode{scenario.NoFlush, scenario.NoOrder} {
				r.add(scenario.Job{Backend: b.Name, Name: "commit", Mode: mode}, counts{points: 9, bricked: 1})
			}
		}
		return r
	}
	rpi := scenario.Job{Backend: "rpi", Mode: scenario.Real}
	for _, c := range []struct {
		name          string
		spoil         func(results)
		prints, fails string
	}{
		{"all is well", func(results) {}, "backend=rpi cut_points=500 bootable=500 bricked=0", ""},
		{"both are summed up", func(results) {}, "all: cut_points=1000 bootable=1000 bricked=0", ""},
		{"the sabotages", func(results) {}, "sabotage=no-order backend=x86 cut_points=9 bricked=1", ""},
		{"a brick", func(r results) {
			r[rpi].bricked++
			r[rpi].faults = []fault{{"rpi/commit", replay.Cut{Position: 7, Of: 9, After: "Try", Left: "nothing lost"}, errors.New("no kernel"), "x.img"}}
		}, "FAULT seed 5, rpi/commit, after \"Try\", at event 7 of 9, nothing lost: no kernel\n    image: x.img", "1 points were not survived"},
		{"another slot", func(r results) { r[rpi].wrong++ }, "bricked=0 wrong_slot=1", "1 points were not survived"},
		{"no upgrade afterwards", func(r results) { r[rpi].broken++ }, "broken=1", "1 points were not survived"},
		{"too few points", func(r results) { r[rpi].points-- }, "cut_points=499", "1 backends had fewer than 500 points"},
		{"a sabotage is not found", func(r results) { r[scenario.Job{Backend: "x86", Mode: scenario.NoFlush}].bricked = 0 }, "sabotage=no-flush backend=x86 cut_points=9 bricked=0", "1 sabotages were not found: the test does not bite"},
	} {
		r := good()
		c.spoil(r)
		var out bytes.Buffer
		fails := ""
		if err := r.print(&out, options{seed: 5, least: enoughPoints}); err != nil {
			fails = err.Error()
		}
		if fails != c.fails || !strings.Contains(out.String(), c.prints) {
			t.Errorf("%s: print fails with %q and prints %q; want %q and %q", c.name, fails, out.String(), c.fails, c.prints)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run([]string{"-nothing"}, &out, &errs); code != 2 {
		t.Errorf("an unknown option ends with %d; want 2", code)
	}
	keep := filepath.Join(t.TempDir(), "keep")
	if code := run([]string{"-scenario", "none", "-keep", keep}, &out, &errs); code != 1 || out.Len() > 0 {
		t.Errorf("an unknown scenario ends with %d and prints %q; want 1", code, &out)
	}
}
