package upgrade

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"machined/hal"
)

// TestManual: a careful owner decides about what was healthy in time.
func TestManual(t *testing.T) {
	for _, keep := range []bool{true, false} {
		b := newBoard(t)
		if err := b.Commit("admin"); !errors.Is(err, ErrNoTrial) {
			t.Errorf("Commit without a trial = %v; want %v", err, ErrNoTrial)
		}
		if err := b.install(pack(t, nil), Options{Manual: true}); err != nil {
			t.Fatal(err)
		}
		b.restart()
		b.step(time.Second, "")
		b.step(11*time.Second, "")
		b.step(5*time.Minute, "a service restarts")
		b.status(Trying, "it was healthy in time, and is not now: a service restarts")
		b.step(6*time.Minute, "")
		b.status(Trying, "`machinectl commit` keeps it")
		if err := b.install(pack(t, nil), Options{}); !errors.Is(err, ErrTrial) {
			t.Errorf("an upgrade of a system on trial = %v; want %v", err, ErrTrial)
		}
		if keep {
			if err := b.Commit("admin"); err != nil {
				t.Fatal(err)
			}
			b.status(Committed, "committed by admin")
			b.restart()
			if b.Slot != "B" {
				t.Errorf("slot %s runs after the commit; want B", b.Slot)
			}
			continue
		}
		if err := b.Rollback("admin"); err != nil {
			t.Fatal(err)
		}
		b.restart()
		b.status(RolledBack, "asked for by admin")
	}
}

// TestRollback goes back from a system that was kept.
func TestRollback(t *testing.T) {
	b := newBoard(t)
	if err := b.Rollback("admin"); err != nil {
		t.Fatal(err)
	}
	b.leadsTo("B")
	b.restart()
	b.status(RolledBack, "asked for by admin")
	if b.Slot != "B" || b.OnTrial() {
		t.Errorf("slot %s, on trial: %v; want B, for good", b.Slot, b.OnTrial())
	}
	b.loader.Slots[0] = hal.Slot{Name: "A"}
	if err := b.Rollback("admin"); !errors.Is(err, ErrNoFallback) {
		t.Errorf("Rollback to nothing = %v; want %v", err, ErrNoFallback)
	}
}

// TestManualIsLate: a system that its owner cannot reach goes back, whoever was to
// keep it.
func TestManualIsLate(t *testing.T) {
	b := newBoard(t)
	if err := b.install(pack(t, nil), Options{Manual: true}); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.step(time.Second, "")
	b.step(time.Minute, "no network") // it was healthy, and not for long enough
	b.leadsTo("A")
	b.restart()
	b.status(RolledBack, "was not healthy in 1m0s: no network")
	if b.Slot != "A" || b.OnTrial() {
		t.Errorf("slot %s runs, on trial: %v; want A again", b.Slot, b.OnTrial())
	}
}

// TestRollbackToUnproven tells of a rollback to what had panicked: for good, since
// no trial stands between.
func TestRollbackToUnproven(t *testing.T) {
	for state, prepare := range map[hal.SlotState]func(*board){
		hal.SlotStaged: func(b *board) { mustInstall(t, b, Options{Stage: true}) },
		hal.SlotFailed: func(b *board) {
			mustInstall(t, b, Options{})
			b.restart()
			b.restart() // it has panicked
		},
	} {
		b := newBoard(t)
		prepare(b)
		asked := len(b.asked)
		if err := b.Rollback("admin"); !errors.Is(err, ErrUnproven) || !strings.Contains(err.Error(), state.String()) {
			t.Errorf("Rollback to a slot that is %s = %v; want %v", state, err, ErrUnproven)
		}
		if b.loader.Default != "A" || len(b.asked) != asked || slot(b.loader.BootState, "B").State != state {
			t.Errorf("after it the default is %s, slots %+v, restarts %q; want all as before", b.loader.Default, b.loader.Slots, b.asked)
		}
	}
}

func mustInstall(t *testing.T, b *board, o Options) {
	t.Helper()
	if err := b.install(pack(t, nil), o); err != nil {
		t.Fatal(err)
	}
}

// TestRollbackRefused leaves what boots, and what is told, as it was: for a default
// that would be booted all the same, and for a node that goes down already.
func TestRollbackRefused(t *testing.T) {
	b := newBoard(t)
	b.restart() // the slots are read
	b.loader.Pinned = "machined-a.conf"
	if err := b.Rollback("admin"); !errors.Is(err, hal.ErrInvalid) || !strings.Contains(err.Error(), "machined-a.conf") {
		t.Errorf("Rollback with a pinned entry = %v; want it refused", err)
	}
	b.loader.Pinned, b.refuse = "", errCut
	if err := b.Rollback("admin"); !errors.Is(err, errCut) {
		t.Errorf("Rollback while the node goes down = %v; want %v", err, errCut)
	}
	b.restart()
	b.status(Idle, "")
	if b.Slot != "A" {
		t.Errorf("slot %s boots; want A, since the rollback was refused", b.Slot)
	}
}

// TestCommitFails tells of a card that had turned read-only: the commit was tried
// again at once, for ever.
func TestCommitFails(t *testing.T) {
	b := newBoard(t)
	mustInstall(t, b, Options{})
	b.restart()
	b.loader.FailAlways("Commit", errCut)
	b.step(time.Second, "")
	b.step(12*time.Second, "")
	b.status(Trying, errCut.Error())
	next := b.Step(int64(13*time.Second), func() string { return "" })
	if want := int64(12*time.Second) + retryPause; next != want || b.Busy() {
		t.Errorf("the next attempt is due at %s; want %s", time.Duration(next), time.Duration(want))
	}
	b.GiveUp(int64(13*time.Second), "its system is gone")
	if b.Busy() || slices.Contains(b.asked, string(ByRollback)) {
		t.Error("another way to end the trial does not wait")
	}
	b.loader.Heal("Commit")
	b.step(time.Duration(next), "")
	b.status(Committed, "it was healthy")
}

// TestSlotsCannotBeRead: a trial is watched though the card has failed once, and
// goes back where it cannot be.
func TestSlotsCannotBeRead(t *testing.T) {
	b := newBoard(t)
	mustInstall(t, b, Options{})
	b.loader.Fail("State", 1, errCut)
	b.restart()
	if !b.OnTrial() {
		t.Fatal("a trial is not watched after one error of the card")
	}
	b.restart()
	b.status(RolledBack, "")

	b = newBoard(t)
	mustInstall(t, b, Options{})
	b.fault = errCut
	b.loader.FailAlways("State", errCut)
	b.restart()
	if got := b.asked[len(b.asked)-1]; got != string(ByRollback) {
		t.Fatalf("a trial that cannot be watched ends with a restart by %s; want a rollback", got)
	}
	b.loader.Heal("State")
	b.restart()
	b.status(RolledBack, "version v2.0.0 was not watched: read the slots: cut")
}
