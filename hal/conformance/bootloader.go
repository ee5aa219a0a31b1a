package conformance

import (
	"testing"

	"machined/hal"
)

// BootloaderRig is a board that runs slot A. Both slots are good and have the
// version v1; A is the default.
type BootloaderRig struct {
	Bootloader hal.Bootloader
	// Boot returns the slot that the firmware boots after a restart with that
	// argument, and has it do what it does to the boot partition.
	Boot func(t *testing.T, argument string) string
	// Files are the files without which the board boots no slot.
	Files []string
	// Writes counts what was written to the boot partition, or how often it was
	// writable; nil if there is none.
	Writes func() int
	// NoFallback says that the trial is one that nothing but Abandon ends.
	NoFallback bool
}

// Bootloader checks a driver.
func Bootloader(t *testing.T, newRig func(t *testing.T) BootloaderRig) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, r BootloaderRig)
	}{
		{"fresh", bootFresh}, {"commit", bootCommit}, {"fall back", bootFallBack}, {"abandon", bootAbandon},
		{"rollback", bootRollback}, {"refusals", bootRefusals}, {"restaged", bootRestaged},
		{"content", stageContent}, {"writer", stageWriter}, {"damaged", stageDamaged}, {"abort", stageAbort},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, newRig(t)) })
	}
}

// want checks what State says, seen from the running slot: default, trial and
// the states of A and B.
func (r BootloaderRig) want(t *testing.T, running, standard, trial string, a, b hal.SlotState) hal.BootState {
	t.Helper()
	before := r.writes()
	st, err := r.Bootloader.State(running)
	must(t, "State", err)
	if st.Slots[0].Name != "A" || st.Slots[1].Name != "B" || st.Default != standard || st.Trial != trial ||
		st.Slots[0].State != a || st.Slots[1].State != b {
		t.Errorf("State = %+v; want default %s, trial %q, A %v, B %v", st, standard, trial, a, b)
	}
	if r.writes() != before {
		t.Error("State writes")
	}
	return st
}

func (r BootloaderRig) writes() int {
	if r.Writes == nil {
		return 0
	}
	return r.Writes()
}

// boot restarts, and recovers as a node does. A second time there is nothing to
// recover.
func (r BootloaderRig) boot(t *testing.T, argument, want string) {
	t.Helper()
	if got := r.Boot(t, argument); got != want {
		t.Fatalf("the firmware boots slot %s; want %s", got, want)
	}
	must(t, "Recover", r.Bootloader.Recover(want))
	before := r.writes()
	must(t, "Recover, once more", r.Bootloader.Recover(want))
	if r.writes() != before {
		t.Error("Recover writes though there is nothing to recover")
	}
}

// install stages a version in the slot that does not run.
func (r BootloaderRig) install(t *testing.T, running, version string) {
	t.Helper()
	content := r.content(version)
	w, err := r.Bootloader.Stage(running, content)
	must(t, "Stage", err)
	for _, f := range content.Files {
		writeSlotFile(t, w, f.Path, bootData(version, f.Path))
	}
	must(t, "Finish", w.Finish())
}

func writeSlotFile(t *testing.T, w hal.SlotWriter, path string, data []byte) {
	t.Helper()
	f, err := w.Create(path)
	must(t, "Create of "+path, err)
	_, err = f.Write(data)
	must(t, "Write", err)
	must(t, "Close", f.Close())
}

func (r BootloaderRig) try(t *testing.T, running, slot string) (argument string) {
	t.Helper()
	argument, err := r.Bootloader.Try(running, slot)
	must(t, "Try", err)
	return argument
}

func bootFresh(t *testing.T, r BootloaderRig) {
	st := r.want(t, "A", "A", "", hal.SlotGood, hal.SlotGood)
	if st.Slots[0].Version != "v1" || st.Problem != "" || st.Pinned != "" {
		t.Errorf("State = %+v; want version v1, and nothing wrong", st)
	}
	before := r.writes()
	r.boot(t, "", "A")
	if r.writes() != before {
		t.Error("Recover of a fresh partition writes")
	}
}

func bootCommit(t *testing.T, r BootloaderRig) {
	r.install(t, "A", "v2")
	st := r.want(t, "A", "A", "", hal.SlotGood, hal.SlotStaged)
	if st.Slots[1].Version != "v2" {
		t.Errorf("the staged slot has the version %q; want v2", st.Slots[1].Version)
	}
	r.boot(t, "", "A") // nothing boots it before Try
	argument := r.try(t, "A", "B")
	if st := r.want(t, "A", "A", "B", hal.SlotGood, hal.SlotTrial); st.Slots[1].Tries < 1 || st.Problem != "" {
		t.Errorf("State = %+v; want a boot or more left, and no problem", st)
	}
	r.boot(t, argument, "B")
	if st, err := r.Bootloader.State("B"); err != nil || st.Slots[1].State != hal.SlotTrial || st.Default != "A" || st.Problem != "" {
		t.Errorf("State in the trial = %+v, %v; want B on trial, and A the default", st, err)
	}
	must(t, "Commit", r.Bootloader.Commit("B"))
	for range 3 {
		if st := r.want(t, "B", "B", "", hal.SlotGood, hal.SlotGood); st.Problem != "" {
			t.Errorf("after the commit there is a problem: %s", st.Problem)
		}
		r.boot(t, "", "B")
	}
	must(t, "Commit, once more", r.Bootloader.Commit("B"))
	r.install(t, "B", "v3")
	r.boot(t, r.try(t, "B", "A"), "A")
	must(t, "Commit", r.Bootloader.Commit("A"))
	r.want(t, "A", "A", "", hal.SlotGood, hal.SlotGood)
}

func bootFallBack(t *testing.T, r BootloaderRig) {
	if r.NoFallback {
		t.Skip("nothing but Abandon ends a trial here")
	}
	r.install(t, "A", "v2")
	argument := r.try(t, "A", "B")
	if got := r.Boot(t, argument); got != "B" {
		t.Fatalf("the trial boots slot %s; want B", got)
	}
	boots := 1
	for ; r.Boot(t, "") == "B"; boots++ {
		if boots > 10 {
			t.Fatal("the trial does not end")
		}
	}
	must(t, "Recover", r.Bootloader.Recover("A"))
	if st := r.want(t, "A", "A", "", hal.SlotGood, hal.SlotFailed); st.Slots[1].Version != "v2" || st.Problem != "" {
		t.Errorf("State after %d boots = %+v; want the failed version", boots, st)
	}
	r.boot(t, argument, "A")
	r.boot(t, r.try(t, "A", "B"), "B") // it may be tried once more
	must(t, "Commit", r.Bootloader.Commit("B"))
	r.want(t, "B", "B", "", hal.SlotGood, hal.SlotGood)
}

func bootAbandon(t *testing.T, r BootloaderRig) {
	r.install(t, "A", "v2")
	argument := r.try(t, "A", "B")
	must(t, "Abandon before the trial", r.Bootloader.Abandon("A", "B"))
	r.want(t, "A", "A", "", hal.SlotGood, hal.SlotFailed)
	r.boot(t, argument, "A")
	r.boot(t, r.try(t, "A", "B"), "B")
	must(t, "Abandon in the trial", r.Bootloader.Abandon("B", "B"))
	must(t, "Abandon, once more", r.Bootloader.Abandon("B", "B"))
	r.boot(t, "", "A")
	r.want(t, "A", "A", "", hal.SlotGood, hal.SlotFailed)
	r.install(t, "A", "v3")
	r.want(t, "A", "A", "", hal.SlotGood, hal.SlotStaged)
}

func bootRollback(t *testing.T, r BootloaderRig) {
	r.install(t, "A", "v2")
	r.boot(t, r.try(t, "A", "B"), "B")
	must(t, "Commit", r.Bootloader.Commit("B"))
	must(t, "Abandon", r.Bootloader.Abandon("B", "B"))
	r.boot(t, "", "A")
	st := r.want(t, "A", "A", "", hal.SlotGood, hal.SlotGood)
	if st.Slots[0].Version != "v1" || st.Slots[1].Version != "v2" || st.Problem != "" {
		t.Errorf("State after a rollback = %+v; want v1 and v2", st)
	}
	must(t, "Abandon of the other", r.Bootloader.Abandon("A", "A"))
	r.boot(t, "", "B")
	r.boot(t, r.try(t, "B", "A"), "A") // an older version may be tried as well
	must(t, "Commit", r.Bootloader.Commit("A"))
	r.boot(t, "", "A")
}

func bootRefusals(t *testing.T, r BootloaderRig) {
	for _, slot := range []string{"", "C", "a", "AB", "../A"} {
		_, err := r.Bootloader.State(slot)
		expect(t, "State", err, hal.ErrInvalid)
		expect(t, "Recover", r.Bootloader.Recover(slot), hal.ErrInvalid)
		_, err = r.Bootloader.Stage(slot, r.content("v2"))
		expect(t, "Stage", err, hal.ErrInvalid)
		_, err = r.Bootloader.Try("A", slot)
		expect(t, "Try", err, hal.ErrInvalid)
		_, err = r.Bootloader.Try(slot, "B")
		expect(t, "Try", err, hal.ErrInvalid)
		expect(t, "Commit", r.Bootloader.Commit(slot), hal.ErrInvalid)
		expect(t, "Abandon", r.Bootloader.Abandon("A", slot), hal.ErrInvalid)
	}
	_, err := r.Bootloader.Try("A", "A")
	expect(t, "Try of the slot that runs", err, hal.ErrInvalid)
	w, err := r.Bootloader.Stage("A", r.content("v2"))
	must(t, "Stage", err)
	must(t, "Abort", w.Abort())
	_, err = r.Bootloader.Try("A", "B")
	expect(t, "Try of an empty slot", err, hal.ErrInvalid)
	expect(t, "Commit of an empty slot", r.Bootloader.Commit("B"), hal.ErrInvalid)
	expect(t, "Abandon for an empty slot", r.Bootloader.Abandon("A", "A"), hal.ErrInvalid)
	r.install(t, "A", "v2")
	r.boot(t, r.try(t, "A", "B"), "B")
	_, err = r.Bootloader.Stage("B", r.content("v3"))
	expect(t, "Stage in a trial, over what it falls back to", err, hal.ErrInvalid)
	_, err = r.Bootloader.Try("B", "A")
	expect(t, "Try in a trial", err, hal.ErrInvalid)
	must(t, "Commit", r.Bootloader.Commit("B"))
	r.want(t, "B", "B", "", hal.SlotGood, hal.SlotGood)
}

// bootRestaged stages while a trial of the slot is planned.
func bootRestaged(t *testing.T, r BootloaderRig) {
	r.install(t, "A", "v2")
	argument := r.try(t, "A", "B")
	if r.NoFallback {
		_, err := r.Bootloader.Stage("A", r.content("v3"))
		expect(t, "Stage while the default is another slot", err, hal.ErrInvalid)
		must(t, "Abandon", r.Bootloader.Abandon("A", "B"))
	}
	r.install(t, "A", "v3")
	if st := r.want(t, "A", "A", "", hal.SlotGood, hal.SlotStaged); st.Slots[1].Version != "v3" {
		t.Errorf("the slot has the version %q; want v3", st.Slots[1].Version)
	}
	r.boot(t, argument, "A") // the trial of what was there is off
}
