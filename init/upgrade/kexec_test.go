package upgrade

import (
	"errors"
	"strings"
	"testing"
	"time"

	"machined/hal"
)

// kexecBoard is a board whose kernel can start another one.
func kexecBoard(t *testing.T) (b *board, loaded *[]string) {
	b, loaded = newBoard(t), new([]string)
	b.load = func(slot string) error {
		*loaded = append(*loaded, slot)
		return nil
	}
	b.boot("A", "")
	return b, loaded
}

// jump starts the slot that was loaded, as a kernel does.
func (b *board) jump(slot string) {
	b.t.Helper()
	if !b.kexec {
		b.t.Fatal("no restart by kexec was asked for")
	}
	b.boot(slot, "")
}

// TestKexec: a version started by kexec is watched, never kept, and can be tried
// by the firmware after a restart.
func TestKexec(t *testing.T) {
	b, loaded := kexecBoard(t)
	if err := b.install(pack(t, nil), Options{Kexec: true}); err != nil {
		t.Fatal(err)
	}
	if len(*loaded) != 1 || (*loaded)[0] != "B" || b.loader.Trial != "" {
		t.Fatalf("loaded %v, the firmware tries %q; want slot B, and the firmware told of nothing", *loaded, b.loader.Trial)
	}
	b.jump("B")
	b.step(5*time.Second, "")
	b.step(16*time.Second, "")
	b.status(Trying, "healthy; started by kexec: a restart goes back to version v1")
	b.step(30*time.Second, "")
	b.step(10*time.Minute, "")
	if err := b.Commit("me"); !errors.Is(err, ErrKexec) {
		t.Errorf("Commit = %v; want %v", err, ErrKexec)
	}
	if !b.OnTrial() || b.loader.Default != "A" || len(b.asked) != 1 {
		t.Fatalf("on trial: %v, default %s, restarts %v; want a trial that is not kept", b.OnTrial(), b.loader.Default, b.asked)
	}
	b.restart() // by the firmware
	b.status(Staged, "was healthy when kexec had started it")
	if b.Slot != "A" {
		t.Fatalf("slot %s runs; want A", b.Slot)
	}
	if err := b.TryStaged(false); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.step(5*time.Second, "")
	b.step(16*time.Second, "")
	b.status(Committed, "it was healthy")
}

// TestKexecFails: what is not healthy in time is left, and what never comes up is
// told of by the system before.
func TestKexecFails(t *testing.T) {
	t.Run("not healthy", func(t *testing.T) {
		b, _ := kexecBoard(t)
		if err := b.install(pack(t, nil), Options{Kexec: true}); err != nil {
			t.Fatal(err)
		}
		b.jump("B")
		b.step(time.Minute, "web is not healthy")
		b.restart()
		b.status(RolledBack, "web is not healthy")
	})
	t.Run("gone", func(t *testing.T) {
		b, _ := kexecBoard(t)
		if err := b.install(pack(t, nil), Options{Kexec: true}); err != nil {
			t.Fatal(err)
		}
		b.kexec = false
		b.boot("A", "")
		b.status(RolledBack, "started by kexec, did not get as far as its data volume")
	})
	t.Run("not loaded", func(t *testing.T) {
		b, _ := kexecBoard(t)
		b.load = func(string) error { return hal.ErrNoSpace }
		b.boot("A", "")
		if err := b.install(pack(t, nil), Options{Kexec: true}); !errors.Is(err, hal.ErrNoSpace) || len(b.asked) != 0 {
			t.Errorf("Install = %v with restarts %v; want %v and none", err, b.asked, hal.ErrNoSpace)
		}
		b.status(Failed, hal.ErrNoSpace.Error())
	})
	t.Run("no kexec", func(t *testing.T) {
		b := newBoard(t)
		if err := b.install(pack(t, nil), Options{Kexec: true}); !errors.Is(err, ErrNoKexec) || b.loader.Content.Version != "" {
			t.Errorf("Install = %v, staged %q; want %v and nothing touched", err, b.loader.Content.Version, ErrNoKexec)
		}
		if err := b.install(pack(t, nil), Options{Stage: true}); err != nil {
			t.Fatal(err)
		}
		if err := b.TryStaged(true); !errors.Is(err, ErrNoKexec) {
			t.Errorf("TryStaged by kexec = %v; want %v", err, ErrNoKexec)
		}
	})
}

// TestKexecWithoutState: the mark on the command line alone tells of kexec.
func TestKexecWithoutState(t *testing.T) {
	b, _ := kexecBoard(t)
	b.noDisk, b.kexec = true, true
	b.boot("B", "")
	b.step(5*time.Second, "")
	b.step(16*time.Second, "")
	if err := b.Commit("me"); !errors.Is(err, ErrKexec) || !b.OnTrial() || b.loader.Recovered != 2 {
		t.Errorf("Commit = %v, on trial %v, recovered %d times; want %v on a trial, and the slots left alone", err, b.OnTrial(), b.loader.Recovered, ErrKexec)
	}
	if s, _, _ := b.Snapshot(); !strings.Contains(s.Message, "started by kexec") {
		t.Errorf("it says %q", s.Message)
	}
}
