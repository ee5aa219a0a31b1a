package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestSeeds runs whole nodes through their troubles.
func TestSeeds(t *testing.T) {
	seeds := 500
	if testing.Short() || raceDetector {
		seeds = 200 // the race detector makes each of them several times as slow
	}
	sum, failures := simulateAll(1, seeds, 2, func() {})
	for _, f := range failures {
		var out bytes.Buffer
		_ = report(&out, f)
		t.Error(out.String())
	}
	t.Logf("%d nodes, %.0f simulated hours: %v", seeds, sum.simulated.Hours(), &sum)
	for what, n := range map[string]int{
		"faults": sum.faults, "power cuts": sum.cuts, "restarts": sum.restarts, "reboots": sum.reboots, "configs": sum.configs, "refusals": sum.naks,
		"leases": sum.leases, "provisionings": sum.provisions, "wipes": sum.wipes, "watches that fell behind": sum.lost, "volumes that are ready": sum.ready,
		"refused volumes": sum.refused, "failed volumes": sum.failed, "right clocks": sum.synced,
		"containers that end": sum.crashes, "pulls": sum.pulls, "foreign pods": sum.foreign, "pods that run": sum.pods,
	} {
		if n == 0 {
			t.Errorf("there were no %s: the simulation does not exercise them", what)
		}
	}
}

// TestDeterminism: a seed that fails must fail again when somebody looks.
func TestDeterminism(t *testing.T) {
	hashes := map[uint64]uint64{}
	for seed := range uint64(20) {
		first, second := simulate(seed+1, nothing, nil), simulate(seed+1, nothing, &bytes.Buffer{})
		if first.hash != second.hash {
			t.Errorf("seed %d has the traces %x and %x", seed+1, first.hash, second.hash)
		}
		if other, known := hashes[first.hash]; known {
			t.Errorf("the seeds %d and %d have one trace", seed+1, other)
		}
		hashes[first.hash] = seed + 1
	}
}

// TestBites: what is broken on purpose is noticed.
func TestBites(t *testing.T) {
	for _, c := range []struct {
		name string
		sabotage
		invariants string
	}{
		{"a provisioner that always wipes", wipeAlways, "consent, boot disk, volume"},
		{"a provisioner that makes anew what is there", remakeVolumes, "consent, boot disk, volume"},
		{"a kernel that keeps addresses", forgetAddresses, "convergence"},
		{"a watch that loses changes", dropEvents, "watch"},
		{"a node that removes what is not its own", removeForeign, "foreign address"},
		{"a node that sets the clock back beyond its program", setBack, "floor"},
		{"a link that moves all the time", shakeLinks, "progress, livelock, rest"},
		{"a runtime that forgets what its pods are", forgetHash, "survival"},
		{"a node that takes others' pods for its own", claimForeign, "foreign pod"},
		{"a runtime that starts nothing", neverStart, "convergence"},
		{"a disk that seems full", seemFull, "image"},
		{"volumes that are remounted without their flags", loseFlags, "volume"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 60; seed++ {
				v := simulate(seed, c.sabotage, nil).violation
				if v == nil {
					continue
				}
				if !strings.Contains(c.invariants, v.invariant) {
					t.Errorf("seed %d: %v; want one of %s broken", seed, v, c.invariants)
				}
				t.Logf("seed %d: %v", seed, v)
				return
			}
			t.Error("60 nodes did not notice")
		})
	}
}

// TestReport shows what a person needs to go on with.
func TestReport(t *testing.T) {
	var out, errors bytes.Buffer
	if err := run([]string{"-seeds", "3", "-workers", "1"}, &out, &errors); err != nil {
		t.Errorf("run: %v", err)
	}
	if !strings.Contains(out.String(), "3 nodes, ") || errors.Len() > 0 {
		t.Errorf("the output is %q and %q; want a summary, and no bar where nobody watches", out.String(), errors.String())
	}
	out.Reset()
	for seed, reports := uint64(1), 0; reports < 5; seed++ {
		o := simulate(seed, forgetAddresses, nil)
		if o.violation == nil {
			continue
		}
		if err := report(&out, o); err == nil {
			t.Error("a broken promise is no error")
		}
		reports++
	}
	for _, want := range []string{": convergence: ", "somebody", "replay: go run ./tools/sim -seed "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report is\n%s\nwant %q in it", out.String(), want)
		}
	}
}
