package upgrade

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"machined/hal"
	"machined/images/bundle"
)

// TestKept is the story of a good upgrade: staged, tried, healthy for a while,
// kept, and found so by the boot after.
func TestKept(t *testing.T) {
	b := newBoard(t)
	b.status(Idle, "")
	if err := b.install(pack(t, nil), Options{}); err != nil {
		t.Fatal(err)
	}
	b.status(Trying, waiting)
	b.leadsTo("B")
	b.restart()
	if !b.OnTrial() || b.Slot != "B" {
		t.Fatalf("slot %s runs, on trial: %v; want B on trial", b.Slot, b.OnTrial())
	}
	b.step(5*time.Second, "the API is not up")
	b.status(Trying, "the API is not up")
	b.step(6*time.Second, "")
	b.step(12*time.Second, "a service has failed") // the hold begins anew
	b.step(13*time.Second, "")
	b.step(22*time.Second, "")
	if !b.OnTrial() {
		t.Fatal("it was kept before it was healthy for as long as it has to be")
	}
	b.step(23*time.Second, "")
	b.status(Committed, "it was healthy")
	if b.OnTrial() || b.loader.Default != "B" {
		t.Errorf("on trial: %v, default %s; want B kept", b.OnTrial(), b.loader.Default)
	}
	b.restart()
	b.status(Committed, "it was healthy")
	if b.Slot != "B" || b.OnTrial() {
		t.Errorf("slot %s runs, on trial: %v; want B, which is kept", b.Slot, b.OnTrial())
	}
	if got := strings.Join(b.asked, " "); got != "upgrade" {
		t.Errorf("restarts were asked for by %q; want one, for the upgrade", got)
	}
}

// TestTakenBack: a system that is not healthy in time is given up, and the one
// before says why.
func TestTakenBack(t *testing.T) {
	b := newBoard(t)
	if err := b.install(pack(t, nil), Options{}); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.step(59*time.Second, "web is not healthy")
	b.step(60*time.Second, "web is not healthy")
	if got := strings.Join(b.asked, " "); got != "upgrade rollback" {
		t.Fatalf("restarts were asked for by %q; want the upgrade and the rollback", got)
	}
	b.restart()
	if b.Slot != "A" {
		t.Fatalf("slot %s runs; want A", b.Slot)
	}
	b.status(RolledBack, "v2.0.0 was not healthy in 1m0s: web is not healthy")
	state, last, reason := b.Told(hal.Slot{Name: "B", State: hal.SlotGood})
	if state != "failed" || last != "boot-2" || !strings.Contains(reason, "web is not healthy") {
		t.Errorf("slot B is %s since %s: %s; want failed in boot-2, and why", state, last, reason)
	}
	// A good one installs after it.
	if err := b.install(pack(t, func(m *bundle.Manifest) { m.Version = "v3.0.0" }), Options{}); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.step(time.Second, "")
	b.step(time.Minute, "")
	b.status(Committed, "")
}

// TestEndsWithoutWord: what is known of trials that did not get to say anything.
func TestEndsWithoutWord(t *testing.T) {
	for _, tt := range []struct {
		name  string
		tries func(b *board)
		want  string
	}{
		{"before STATE", func(*board) {}, "v2.0.0 did not get as far as its data volume"},
		{"after it", func(b *board) { b.boot("B", "") }, "v2.0.0 ended without having been healthy, after 1 attempts"},
		{"with a word", func(b *board) { b.boot("B", ""); b.step(time.Second, "no API") }, "after 1 attempts; the machine went down by watchdog"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBoard(t)
			if err := b.install(pack(t, nil), Options{}); err != nil {
				t.Fatal(err)
			}
			b.loader.Boot(b.argument)
			tt.tries(b)
			b.boot("A", "watchdog")
			b.status(RolledBack, tt.want)
			b.restart()
			b.status(RolledBack, tt.want) // and it is not told anew
		})
	}
}

// TestAttempts: a version that ends again and again, under a firmware that does not
// count, is given up.
func TestAttempts(t *testing.T) {
	b := newBoard(t)
	if err := b.install(pack(t, nil), Options{}); err != nil {
		t.Fatal(err)
	}
	b.loader.Boot(b.argument)
	for range maxAttempts {
		b.boot("B", "")
		b.status(Trying, waiting)
	}
	b.boot("B", "") // with the trial's files still there
	if got := strings.Join(b.asked, " "); got != "upgrade rollback" {
		t.Errorf("restarts were asked for by %q; want the rollback at last", got)
	}
	b.restart()
	b.status(RolledBack, "v2.0.0 was not healthy in 3 boots")
}

// TestCommitIsCut: the power goes between the commit and the note of it.
func TestCommitIsCut(t *testing.T) {
	b := newBoard(t)
	if err := b.install(pack(t, nil), Options{}); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.files.Fail("Replace", 1, errCut)
	b.step(time.Second, "")
	b.step(time.Minute, "")
	b.files.Heal("Replace")
	b.restart()
	b.status(Committed, "")
	if b.OnTrial() || b.Slot != "B" {
		t.Errorf("slot %s, on trial: %v; want B, kept", b.Slot, b.OnTrial())
	}
}

// TestStaged leaves a version on the disk, over a restart, and tries it later.
func TestStaged(t *testing.T) {
	b := newBoard(t)
	if err := b.TryStaged(false); !errors.Is(err, ErrNothingStaged) {
		t.Errorf("TryStaged of nothing = %v; want %v", err, ErrNothingStaged)
	}
	if err := b.install(pack(t, nil), Options{Stage: true}); err != nil {
		t.Fatal(err)
	}
	b.status(Staged, "")
	if len(b.asked) != 0 {
		t.Fatalf("a restart was asked for by %s", b.asked)
	}
	b.restart()
	b.status(Staged, "")
	if err := b.TryStaged(false); err != nil {
		t.Fatal(err)
	}
	b.restart()
	if b.Slot != "B" || !b.OnTrial() {
		t.Errorf("slot %s, on trial: %v; want B on trial", b.Slot, b.OnTrial())
	}
}

// TestRefused: nothing of the slots is touched for a bundle that is not for this
// node.
func TestRefused(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	good := pack(t, nil)
	flipped := append([]byte(nil), good...)
	flipped[len(flipped)-1] ^= 1
	for _, tt := range []struct {
		name    string
		bundle  []byte
		policy  Policy
		want    string
		staging bool // it shows only while it is written
	}{
		{"another board", pack(t, func(m *bundle.Manifest) { m.Board = "other" }), Policy{}, "it is for the board other, and this is test", false},
		{"not signed", good, Policy{Keys: []ed25519.PublicKey{public}}, "not signed", false},
		{"not a bundle", []byte("hello, this is no bundle at all"), Policy{}, "not a bundle", false},
		{"cut head", good[:40], Policy{}, "cut short", false},
		{"too old", good, Policy{MinVersion: "v2.0.1"}, "machine.upgrade.min_version", false},
		{"no telling how old", pack(t, func(m *bundle.Manifest) { m.Version = "abcdef1" }), Policy{MinVersion: "v2.0.1"}, "machine.upgrade.min_version", false},
		{"node too old", pack(t, func(m *bundle.Manifest) { m.MinVersion = "v1.5.0" }), Policy{}, "install a version in between first", false},
		{"cut", good[:len(good)-1], Policy{}, "cut short", true},
		{"damaged", flipped, Policy{}, "damaged", true},
		{"more behind it", append(append([]byte(nil), good...), 0), Policy{}, "after the end of the bundle", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBoard(t)
			b.SetPolicy(tt.policy)
			err := b.install(tt.bundle, Options{})
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error is %v; want %v and %q", err, ErrRefused, tt.want)
			}
			b.status(Failed, tt.want)
			want := "v1"
			if tt.staging {
				want = ""
			}
			if got := b.loader.Slots[1].Version; got != want || len(b.asked) != 0 || b.loader.Default != "A" {
				t.Errorf("slot B has version %q, restarts by %v, default %s; want %q, none, A", got, b.asked, b.loader.Default, want)
			}
			b.SetPolicy(Policy{Keys: []ed25519.PublicKey{public}})
			if err := b.install(pack(t, nil, private), Options{}); err != nil {
				t.Errorf("a good one after it: %v", err)
			}
		})
	}
}

// TestHash compares what was fetched with what was said.
func TestHash(t *testing.T) {
	b := newBoard(t)
	good := pack(t, nil)
	if err := b.install(good, Options{SHA256: strings.Repeat("0", 64)}); !errors.Is(err, ErrRefused) {
		t.Errorf("another hash = %v; want %v", err, ErrRefused)
	}
	if err := b.install(good, Options{SHA256: strings.ToUpper(fmt.Sprintf("%x", sha256.Sum256(good)))}); err != nil {
		t.Errorf("the hash in capitals: %v", err)
	}
}

// TestOneAtATime: a second upgrade is refused at once, and a client that goes away
// harms nobody.
func TestOneAtATime(t *testing.T) {
	b := newBoard(t)
	r, w := io.Pipe()
	first := make(chan error, 1)
	go func() { first <- run(b.Manager, r, Options{}) }()
	good := pack(t, nil)
	if _, err := w.Write(good[:len(good)-5000]); err != nil {
		t.Fatal(err)
	}
	if err := b.install(good, Options{}); !errors.Is(err, ErrBusy) {
		t.Errorf("a second upgrade = %v; want %v", err, ErrBusy)
	}
	if err := b.Ready(); !errors.Is(err, ErrBusy) {
		t.Errorf("Ready() = %v; want %v", err, ErrBusy)
	}
	w.CloseWithError(errCut)
	if err := <-first; !errors.Is(err, errCut) || errors.Is(err, ErrRefused) {
		t.Errorf("an upgrade whose client went away = %v; want %v", err, errCut)
	}
	if err := b.install(good, Options{}); err != nil {
		t.Errorf("an upgrade after it: %v", err)
	}
}

// TestDriverFails: whatever fails, the running system is what boots next.
func TestDriverFails(t *testing.T) {
	for _, method := range []string{"Stage", "Create", "Write", "Close", "Finish", "Try"} {
		t.Run(method, func(t *testing.T) {
			b := newBoard(t)
			b.loader.Fail(method, 1, hal.ErrNoSpace)
			if err := b.install(pack(t, nil), Options{}); !errors.Is(err, hal.ErrNoSpace) {
				t.Errorf("the error is %v; want %v", err, hal.ErrNoSpace)
			}
			b.loader.Heal(method)
			if got := b.loader.Boot(""); got != "A" || len(b.asked) != 0 {
				t.Errorf("slot %s boots, restarts by %v; want A, and none", got, b.asked)
			}
		})
	}
	t.Run("Reboot", func(t *testing.T) {
		b := newBoard(t)
		b.refuse = errCut
		if err := b.install(pack(t, nil), Options{}); !errors.Is(err, errCut) {
			t.Errorf("the error is %v; want %v", err, errCut)
		}
		if b.loader.Trial != "" {
			t.Errorf("slot %s is still on trial", b.loader.Trial)
		}
	})
}

// TestNoState: a node whose STATE is gone is kept or goes back all the same.
func TestNoState(t *testing.T) {
	b := newBoard(t)
	b.loader.Argument, b.loader.Tries = "", 3 // boots are counted by the loader
	if err := b.install(pack(t, nil), Options{}); err != nil {
		t.Fatal(err)
	}
	b.noDisk = true
	b.restart()
	if !b.OnTrial() {
		t.Fatal("a counted boot is not taken for a trial")
	}
	b.step(time.Second, "")
	b.step(time.Minute, "")
	b.status(Committed, "")
	if b.loader.Default != "B" {
		t.Errorf("the default is %s; want B", b.loader.Default)
	}
}
