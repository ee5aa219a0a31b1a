package main

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"machined/hal"
	"machined/hal/fake"
	"machined/reconcile/network"
	"machined/reconcile/resource"
)

// panicking is a driver with a fault that Go finds at run time.
type panicking struct {
	hal.Watchdog
	hal.Links
	after int
}

func (p *panicking) Feed() error {
	p.strike()
	return nil
}

func (p *panicking) List() ([]hal.Link, error) {
	p.strike()
	return p.Links.List()
}

func (p *panicking) strike() {
	p.after--
	if p.after < 0 {
		var none *node
		none.apiStatus.Message = "" // a nil pointer, as such faults are
	}
}

// TestEmergency tells of errors that ended PID 1, and the kernel with it: a
// panic of a boot task, one of the loop, an error. Each is to be reported, kept
// and followed by a restart.
func TestEmergency(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(r *rig)
		body   func(r *rig) (request, error) // nil for the whole of stage 2
		shows  string
	}{
		{name: "panic of a boot task", shows: "emergency: task controllers: panic: runtime error: invalid memory address",
			damage: func(r *rig) { r.reconciler.loop = nil }},
		{name: "panic of the loop", shows: "emergency: panic: runtime error: invalid memory address",
			damage: func(r *rig) { r.node.watchdog = &panicking{after: 1} }},
		{name: "panic of a driver at the third pass", shows: "emergency: panic: runtime error: invalid memory address",
			damage: func(r *rig) { r.node.watchdog = &panicking{after: 4}; r.kickForEver() }},
		{name: "error", shows: "emergency: the handover is damaged.",
			body: func(*rig) (request, error) { return request{end: powerOff}, errors.New("the handover is damaged") }},
		{name: "panic with an error inside", shows: "emergency: panic: device gone",
			body: func(*rig) (request, error) { panic(errors.New("device gone")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			if c.damage != nil {
				c.damage(r)
			}
			slept := r.live(func() (request, error) {
				if c.body != nil {
					return c.body(r)
				}
				return r.stage2()
			})
			if r.power.Ending != fake.Restarted || slept != emergencyDelay {
				t.Errorf("the machine ended as %d after %s; want a restart (%d) after %s", r.power.Ending, slept, fake.Restarted, emergencyDelay)
			}
			for _, want := range []string{c.shows, "emergency: Restarting in 10s."} {
				if !r.screen.shows(r.log, want) {
					t.Errorf("the console lacks %q", want)
				}
			}
			crash, err := os.ReadFile(r.at(crashFile))
			if err != nil || !strings.Contains(string(crash), strings.TrimSuffix(strings.TrimPrefix(c.shows, "emergency: "), ".")) {
				t.Errorf("STATE keeps %q, %v; want the error", crash, err)
			}
		})
	}
}

// TestControllerPanic: a controller that panics is reported and kept for the
// next boot, and the node goes on.
func TestControllerPanic(t *testing.T) {
	r := newRig(t)
	r.node.links = &panicking{Links: r.links}
	mustDo(t, r.startControllers())
	r.pass()
	status, _, _ := r.store.Controllers.Get(resource.Named("network-observe"))
	if want := "panic: runtime error: invalid memory address or nil pointer dereference"; status.LastError != want || status.Failures == 0 {
		t.Errorf("ControllerStatus is %+v; want %q", status, want)
	}
	if name, _ := r.host.Hostname(); name != network.DefaultHostname {
		t.Errorf("the host's name is %q; want the other controllers' work done", name)
	}
	crash, err := os.ReadFile(r.at(crashFile))
	if err != nil || !strings.Contains(string(crash), "controller network-observe: panic: ") || !strings.Contains(string(crash), "Observe") {
		t.Errorf("STATE keeps %q, %v; want the panic and its stack", crash, err)
	}
	mustDo(t, os.Remove(r.at(crashFile)))
	r.clock.Advance(int64(2 * time.Second))
	r.pass()
	if again, _, _ := r.store.Controllers.Get(resource.Named("network-observe")); again.Failures <= status.Failures || exists(r.at(crashFile)) {
		t.Errorf("after another panic ControllerStatus is %+v, and it is kept: %v; want it counted, and not kept", again, exists(r.at(crashFile)))
	}
	if !r.screen.shows(r.log, "network-observe: panic: runtime error") {
		t.Error("the console does not tell of the panic")
	}
}

// kickForEver makes the loop's passes follow each other at once.
func (r *rig) kickForEver() {
	go func() {
		for range time.Tick(time.Millisecond) {
			r.kick()
		}
	}()
}

// live runs body as PID 1 until the machine has ended, and returns the time
// that PID 1 slept before.
func (r *rig) live(body func() (request, error)) (slept time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.machine(&slept, runtime.Goexit).live(body)
	}()
	<-done
	return slept
}

// TestCrashNeedsState checks that nothing is written where STATE is not
// mounted: that would be memory.
func TestCrashNeedsState(t *testing.T) {
	r := newRig(t)
	mustDo(t, os.Remove(r.at(stateMarker)))
	r.live(func() (request, error) { return request{}, errors.New("an error") })
	if exists(r.at(crashFile)) {
		t.Errorf("%s was written without STATE", crashFile)
	}
}

func TestEndings(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   ending
		fault string // method of Power that fails once
		want  fake.Ending
	}{
		{"restart", restart, "", fake.Restarted},
		{"power off", powerOff, "", fake.Off},
		{"restart that fails first", restart, "Restart", fake.Restarted},
		// A board that cannot be switched off shall not sit there dead.
		{"power off that fails", powerOff, "PowerOff", fake.Restarted},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			if c.fault != "" {
				r.power.Fail(c.fault, 1, errors.New("refused"))
			}
			r.live(func() (request, error) { return request{end: c.end}, nil })
			if r.power.Ending != c.want {
				t.Errorf("the machine ended as %d; want %d", r.power.Ending, c.want)
			}
			if c.fault != "" && !r.screen.shows(r.log, "power: Trying again: refused.") {
				t.Error("the console does not say that the ending was refused")
			}
		})
	}
}

func TestNotPID1(t *testing.T) {
	if code := run(nil, 2); code != 2 {
		t.Errorf("run as process 2 = %d; want 2", code)
	}
}

// TestBackgroundPanic tells of a task beside the loop whose panic took PID 1
// with it.
func TestBackgroundPanic(t *testing.T) {
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		runs := make(chan time.Time, 2)
		r.spawn("dhcp eth0", func() {
			runs <- time.Now()
			if len(runs) == 1 {
				panic("a packet of a new kind")
			}
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(runs) != 2 {
			t.Fatalf("the task ran %d times; want 2", len(runs))
		}
		if first, second := <-runs, <-runs; second.Sub(first) != respawnDelay {
			t.Errorf("it was started again after %s; want %s", second.Sub(first), respawnDelay)
		}
	})
	if !r.screen.shows(r.log, "dhcp eth0: Starting again after 5s: panic: a packet of a new kind") || !exists(r.at(crashFile)) {
		t.Error("the panic is not on the console and in STATE")
	}
}
