package upgrade

import (
	"errors"
	"testing"
	"time"
)

// firmwareRig plays a firmware that makes trials or ignores them.
type firmwareRig struct {
	*board
	honours bool
	panics  bool // the new version does
	probes  int  // asked for
	flips   bool
	err     error
}

func (f *firmwareRig) ProbeTrial(running string) (string, error) {
	if f.err != nil {
		return "", f.err
	}
	f.probes++
	return "probe", nil
}

func (f *firmwareRig) FlipFirst() { f.flips, f.loader.Argument = true, "" }

// reset is what the machine does after a restart.
func (f *firmwareRig) reset() {
	f.t.Helper()
	argument := f.argument
	f.argument = ""
	f.probed = argument == "probe" && f.honours
	slot := "A"
	switch {
	case argument == "probe":
	case f.flips, f.honours:
		slot = f.loader.Boot(argument)
	default:
		f.loader.Boot("") // the flag is lost
	}
	if slot == "B" && f.panics {
		slot = f.loader.Boot("")
	}
	f.boot(slot, "")
}

func newFirmwareRig(t *testing.T) *firmwareRig {
	f := &firmwareRig{board: newBoard(t)}
	f.prober = f
	f.boot("A", "")
	return f
}

// TestFirmwareIgnoresTrials: that is found out, said, and got around when one asks
// again.
func TestFirmwareIgnoresTrials(t *testing.T) {
	f := newFirmwareRig(t)
	if err := f.install(pack(t, nil), Options{}); err != nil {
		t.Fatal(err)
	}
	for i := range maxProbes {
		f.reset()
		f.status(Trying, "finding out whether the firmware makes trials")
		if f.probes != i+1 || f.Ignored() {
			t.Fatalf("asked %d times after %d boots, ignored: %v", f.probes, i+1, f.Ignored())
		}
	}
	f.reset()
	f.status(Staged, "the firmware ignores the request to try version v2.0.0")
	if !f.Ignored() || !f.flips || f.probes != maxProbes {
		t.Fatalf("ignored: %v, flips first: %v, asked %d times; want it known after %d", f.Ignored(), f.flips, f.probes, maxProbes)
	}
	if err := f.TryStaged(false); err != nil {
		t.Fatal(err)
	}
	f.reset()
	if f.Slot != "B" || !f.OnTrial() {
		t.Fatalf("slot %s runs, on trial: %v; want B on trial", f.Slot, f.OnTrial())
	}
	f.step(5*time.Second, "")
	f.step(16*time.Second, "")
	f.status(Committed, "")
	// It is remembered.
	f.flips = false
	f.reset()
	if !f.flips || !f.Ignored() {
		t.Error("what is known of the firmware was forgotten")
	}
}

// TestFirmwareHonoursTrials: a version that panics is told from one that was not
// tried, by one restart, once in the life of a node.
func TestFirmwareHonoursTrials(t *testing.T) {
	f := newFirmwareRig(t)
	f.honours, f.panics = true, true
	for range 2 {
		if err := f.install(pack(t, nil), Options{}); err != nil {
			t.Fatal(err)
		}
		f.reset()
		if f.argument == "probe" {
			f.leadsTo("A")
			f.reset()
		}
		f.status(RolledBack, "v2.0.0 did not get as far as its data volume: its kernel or its init failed")
		if f.probes != 1 || f.Ignored() || f.flips {
			t.Errorf("asked %d times, ignored: %v, flips first: %v; want once and no", f.probes, f.Ignored(), f.flips)
		}
	}
}

// TestFirmwareProvenByTrial: a trial that runs needs no other proof.
func TestFirmwareProvenByTrial(t *testing.T) {
	f := newFirmwareRig(t)
	f.honours = true
	if err := f.install(pack(t, nil), Options{}); err != nil {
		t.Fatal(err)
	}
	f.reset()
	f.step(time.Minute, "web is not healthy")
	f.reset()
	f.status(RolledBack, "web is not healthy")
	f.panics = true
	if err := f.install(pack(t, nil), Options{}); err != nil {
		t.Fatal(err)
	}
	f.reset()
	f.status(RolledBack, "its kernel or its init failed")
	if f.probes != 0 {
		t.Errorf("asked %d times; want never", f.probes)
	}
}

// TestProbeFails: what cannot be found out is said as before.
func TestProbeFails(t *testing.T) {
	f := newFirmwareRig(t)
	f.err = errors.New("the card is full")
	if err := f.install(pack(t, nil), Options{}); err != nil {
		t.Fatal(err)
	}
	f.reset()
	f.status(RolledBack, "or the firmware did not try it")
}
