package main

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"machined/api"
	"machined/hal"
	"machined/hal/fake"
	"machined/hal/linux"
)

// TestRefusedReset: a reset that was refused, since a reboot was under way, left its
// word in STATE, and the next boot wiped the node.
func TestRefusedReset(t *testing.T) {
	for _, c := range []struct {
		name    string
		hinder  func(r *rig)
		before  string // word of an earlier reset in STATE
		want    error  // of the refusal
		after   string
		endings resetMode // what the node is asked for in the end
	}{
		{name: "a reboot runs", want: api.ErrBusy, hinder: func(r *rig) { _ = r.ask(restart, "laptop") }},
		{name: "the slot's program takes over", want: api.ErrBusy, hinder: func(r *rig) { r.succeeding = true }},
		{name: "the same, and a reset was cut before", want: api.ErrBusy, hinder: func(r *rig) { r.succeeding = true },
			before: keepIdentity, after: keepIdentity},
		{name: "another reset runs", want: api.ErrBusy, hinder: func(r *rig) { _ = r.Reset("laptop", true) },
			after: keepIdentity, endings: resetButIdentity},
		{name: "STATE takes no more", want: hal.ErrNoSpace, hinder: func(r *rig) { r.files = fullFiles{r.files} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			path := r.at(stateDir + "/" + resetName)
			if c.before != "" {
				write(t, path, c.before)
			}
			c.hinder(r)
			if err := r.Reset("phone", false); !errors.Is(err, c.want) {
				t.Errorf("Reset = %v; want %v", err, c.want)
			}
			if word, err := os.ReadFile(path); string(word) != c.after || exists(path) != (c.after != "") {
				t.Errorf("STATE has the word %q, %v; want %q", word, err, c.after)
			}
			if got := r.requested(); got != nil && got.reset != c.endings {
				t.Errorf("the node is asked for %+v; want the reset mode %d", got, c.endings)
			}
			// Nothing of the refused one is in the way of a next one.
			if r.requested() == nil {
				r.succeeding, r.files = false, &linux.Files{}
				mustDo(t, r.Reset("laptop", false))
			}
		})
	}
}

// fullFiles are on a STATE that takes no more.
type fullFiles struct{ hal.Files }

func (f fullFiles) Replace(string, []byte, bool) error { return hal.ErrNoSpace }

// slowFiles run something while they write.
type slowFiles struct {
	hal.Files
	meanwhile func()
}

func (f slowFiles) Replace(path string, data []byte, public bool) error {
	f.meanwhile()
	return f.Files.Replace(path, data, public)
}

// TestResetOvertaken: what is asked for while a slow card takes the word of a reset
// neither loses the reset nor is lost.
func TestResetOvertaken(t *testing.T) {
	r := newRig(t)
	r.files = slowFiles{r.files, func() {
		if r.requested() != nil {
			t.Error("the node goes down before STATE has the word of the reset")
		}
		if err := r.Reset("phone", true); !errors.Is(err, api.ErrBusy) {
			t.Errorf("a second reset = %v; want it refused", err)
		}
		mustDo(t, r.ask(powerOff, "power button"))
	}}
	mustDo(t, r.Reset("laptop", false))
	if got := r.requested(); got == nil || got.end != powerOff || got.by != "power button" || got.reset != resetAll {
		t.Errorf("the node is asked for %+v; want the power-off, with the reset", got)
	}
	if word, err := os.ReadFile(r.at(stateDir + "/" + resetName)); err != nil || len(word) > 0 {
		t.Errorf("STATE has the word %q, %v; want that of the first reset", word, err)
	}
}

// slowErasing takes its time for each of the pieces of a volume, and for ever for
// those that a dead disk does not take.
type slowErasing struct {
	hal.Provisioner
	pieces, dead int
	takes        time.Duration
	stuck        chan struct{}
}

func (s slowErasing) Erase(disk string, which hal.DataVolume, moved func()) error {
	for i := range s.pieces {
		if i == s.dead {
			<-s.stuck
			return errors.New("input/output error")
		}
		time.Sleep(s.takes)
		moved()
	}
	return s.Provisioner.Erase(disk, which, moved)
}

// TestSlowErasing: a card that takes longer than a minute for the whole of a volume
// was cut off each time, kept the word of the reset, and so was reset for ever. One
// that takes nothing must not keep the machine from ending.
func TestSlowErasing(t *testing.T) {
	for _, c := range []struct {
		name   string
		dead   int // the piece at which the disk dies, -1 for never
		within time.Duration
		wiped  bool
	}{
		{"slow", -1, 2*40*30*time.Second + time.Minute, true},
		{"dead", 0, flushDeadline + 2*time.Second, false},
		{"dies on the way", 3, 3*30*time.Second + flushDeadline + 2*time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			mustDo(t, r.startControllers())
			for range 5 {
				r.pass()
				r.clock.Advance(int64(time.Second))
			}
			mustDo(t, r.Reset("laptop", false))
			dog := &feeding{Watchdog: r.watchdog}
			r.node.watchdog = dog
			synctest.Test(t, func(t *testing.T) {
				stuck := make(chan struct{})
				r.provisioner = slowErasing{r.provisioner, 40, c.dead, 30 * time.Second, stuck}
				began := time.Now()
				r.down(r.requested())
				took := time.Since(began)
				if took > c.within || dog.fed < int(took/time.Second) {
					t.Errorf("the way down took %s, with the watchdog fed %d times; want %s at most, and a feed a second", took, dog.fed, c.within)
				}
				if state := fsOf(r.blocks, "/dev/mmcblk0p2"); state == "" != c.wiped {
					t.Errorf("STATE holds %q, and is wiped: %v; want %v", state, state == "", c.wiped)
				}
				close(stuck)
				time.Sleep(time.Hour) // the writer ends
			})
			if shown := r.screen.shows(r.log, "shutdown: The disks do not answer for 1m0s"); shown == c.wiped {
				t.Errorf("the console tells of disks that do not answer: %v; want %v", shown, !c.wiped)
			}
		})
	}
}

// fsOf is the file system of a partition, "" for none.
func fsOf(b *fake.BlockDevices, path string) string {
	for _, d := range b.Devices() {
		if d.Path == path {
			return d.FS
		}
	}
	return "nothing at " + path
}

// wordWatch looks for the word of a reset when a volume is erased.
type wordWatch struct {
	hal.Provisioner
	path  string
	erase map[hal.DataVolume]bool // whether the word was there
}

func (w wordWatch) Erase(disk string, which hal.DataVolume, moved func()) error {
	w.erase[which] = exists(w.path)
	return w.Provisioner.Erase(disk, which, moved)
}

// TestResetCutInEphemeral: with the identity kept, the word of the reset went before
// EPHEMERAL did, so that a power cut between the two left the data for good.
func TestResetCutInEphemeral(t *testing.T) {
	r := newRig(t)
	mustDo(t, r.startControllers())
	for range 5 {
		r.pass()
		r.clock.Advance(int64(time.Second))
	}
	path := r.at(stateDir + "/" + resetName)
	w := wordWatch{r.provisioner, path, make(map[hal.DataVolume]bool)}
	r.provisioner = w
	mustDo(t, r.Reset("laptop", true))
	r.down(r.requested())
	if there, erased := w.erase[hal.EphemeralVolume]; !there || !erased || len(w.erase) != 1 {
		t.Errorf("erased, with the word in STATE or not: %v; want EPHEMERAL alone, with it", w.erase)
	}
	if exists(path) {
		t.Error("the word of the reset is still there, so that the next boot resets again")
	}
	all, err := r.mounts.List()
	mustDo(t, err)
	for _, m := range all {
		if strings.HasPrefix(m.Target, stateDir) {
			t.Errorf("%s is mounted still", m.Target)
		}
	}
}

// TestWantsBoth: of two endings that were granted one after the other the weightier
// happens, whichever is noted first, and a reset with it.
func TestWantsBoth(t *testing.T) {
	for _, first := range []bool{true, false} {
		r := newRig(t)
		both := []request{{end: restart, by: "laptop", reset: resetButIdentity}, {end: powerOff, by: "power button"}}
		if !first {
			both[0], both[1] = both[1], both[0]
		}
		for _, one := range both {
			mustDo(t, r.want(one))
		}
		if got := r.requested(); got.end != powerOff || got.by != "power button" || got.reset != resetButIdentity {
			t.Errorf("the reset first: %v: the node is asked for %+v; want the power-off, with the reset", first, got)
		}
	}
}
