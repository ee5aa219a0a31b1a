package upgrade

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"machined/hal"
	"machined/hal/fake"
	"machined/images/bundle"
)

// board is a node over its boots: what outlasts them.
type board struct {
	t      *testing.T
	loader *fake.Bootloader
	files  fake.Files
	policy Policy
	noDisk bool // STATE is not there

	*Manager
	boots    int
	asked    []string // restarts that were asked for
	argument string   // of the last of them
	next     string   // slot that the last of them was for
	kexec    bool     // so was the last of them
	probed   bool     // the firmware made the trial that was asked for
	load     func(slot string) error
	prober   hal.TrialProber
	refuse   error // what a restart fails with
	fault    error // what a boot may fail with

	mu   sync.Mutex
	said strings.Builder
}

func newBoard(t *testing.T) *board {
	b := &board{
		t: t, loader: &fake.Bootloader{Argument: "0 tryboot", Sum: func(d []byte) [32]byte { return sha256.Sum256(d) }},
		policy: Policy{AutoRollback: true, Deadline: time.Minute, Hold: 10 * time.Second},
	}
	b.boot("A", "")
	return b
}

// boot starts the node in a slot.
func (b *board) boot(slot, last string) {
	b.t.Helper()
	b.boots++
	b.Manager = New(Drivers{
		Bootloader: b.loader, Files: &b.files, Kick: func() {},
		OnState: func(name string) string {
			if b.noDisk {
				return ""
			}
			return "/state/" + name
		},
		Reboot: func(r Restart) error {
			if b.refuse != nil {
				return b.refuse
			}
			b.asked, b.argument, b.kexec, b.next = append(b.asked, string(r.Reason)), r.Argument, r.Kexec, r.Slot
			return nil
		},
		Load: b.load, Prober: b.prober,
		Say: func(format string, args ...any) {
			b.mu.Lock()
			defer b.mu.Unlock()
			fmt.Fprintf(&b.said, format+"\n", args...)
		},
	}, Facts{Board: "test", Slot: slot, Version: "v1.0.0", BootID: fmt.Sprint("boot-", b.boots), Kexec: b.kexec, Probed: b.probed})
	b.kexec, b.probed = false, false
	b.pause = time.Millisecond
	b.SetPolicy(b.policy)
	if err := b.Boot(last); err != nil && !errors.Is(err, b.fault) {
		b.t.Fatal(err)
	}
}

// restart has the firmware choose a slot, and boots it.
func (b *board) restart() {
	b.t.Helper()
	argument := b.argument
	b.argument = ""
	b.boot(b.loader.Boot(argument), "")
}

// status checks what is published.
func (b *board) status(phase Phase, message string) {
	b.t.Helper()
	s, _, _ := b.Snapshot()
	if s.Phase != phase || !strings.Contains(s.Message, message) {
		b.t.Fatalf("the upgrade is %s: %q; want %s: %q", s.Phase, s.Message, phase, message)
	}
}

// leadsTo checks what is told of the restart that was asked for last.
func (b *board) leadsTo(slot string) {
	b.t.Helper()
	if b.next != slot {
		b.t.Errorf("the restart is told to lead to slot %q; want %q", b.next, slot)
	}
}

// step runs Step at a time after boot, and waits for what it has started.
func (b *board) step(at time.Duration, why string) {
	b.t.Helper()
	b.Step(int64(at), func() string { return why })
	for deadline := time.Now().Add(10 * time.Second); b.Busy(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatal("busy for 10 s")
		}
	}
}

// install runs an upgrade by a bundle.
func (b *board) install(bundle []byte, o Options) error {
	return run(b.Manager, bytes.NewReader(bundle), o)
}

// run runs an upgrade from its beginning to its end.
func run(m *Manager, r io.Reader, o Options) error {
	install, err := m.Begin(o)
	if err != nil {
		return err
	}
	return install(context.Background(), r)
}

// pack makes a bundle.
func pack(t *testing.T, edit func(*bundle.Manifest), keys ...ed25519.PrivateKey) []byte {
	t.Helper()
	files := map[string][]byte{"kernel8.img": bytes.Repeat([]byte("kernel"), 30000), "system.squashfs": bytes.Repeat([]byte{7}, 100000)}
	m := bundle.Manifest{Version: "v2.0.0", Board: "test", Arguments: "panic=10"}
	for _, name := range []string{"kernel8.img", "system.squashfs"} {
		m.Files = append(m.Files, hal.SlotFile{Path: name, Size: int64(len(files[name])), SHA256: sha256.Sum256(files[name])})
	}
	if edit != nil {
		edit(&m)
	}
	var out bytes.Buffer
	open := func(name string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files[name])), nil }
	if err := bundle.Write(&out, m, open, keys); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

var errCut = errors.New("cut")
