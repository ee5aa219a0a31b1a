package conformance

import (
	"testing"

	"machined/hal"
)

// WatchdogRig is a watchdog that is not started.
type WatchdogRig struct {
	Watchdog hal.Watchdog
	// Absent is a watchdog of a board that has none.
	Absent hal.Watchdog
	// Armed reports whether the timer runs.
	Armed func() bool
}

// Watchdog checks a driver.
func Watchdog(t *testing.T, newRig func(t *testing.T) WatchdogRig) {
	t.Run("life", func(t *testing.T) {
		r := newRig(t)
		got, err := r.Watchdog.Start(15)
		must(t, "Start(15)", err)
		if got < 1 || got > 15 {
			t.Errorf("Start(15) = %d; want 1 to 15 seconds", got)
		}
		if !r.Armed() {
			t.Error("the watchdog is not armed after Start")
		}
		for range 3 {
			expect(t, "Feed()", r.Watchdog.Feed(), nil)
		}
		expect(t, "Disarm()", r.Watchdog.Disarm(), nil)
		if r.Armed() {
			t.Error("the watchdog is armed after Disarm")
		}
		expect(t, "Feed() after Disarm", r.Watchdog.Feed(), hal.ErrNoDevice)
		expect(t, "Disarm() after Disarm", r.Watchdog.Disarm(), hal.ErrNoDevice)
		_, err = r.Watchdog.Start(15)
		expect(t, "Start() after Disarm", err, nil)
	})
	t.Run("not started", func(t *testing.T) {
		r := newRig(t)
		if r.Watchdog.Feed() == nil {
			t.Error("Feed() before Start succeeded; want an error")
		}
		_, err := r.Watchdog.DidReset()
		expect(t, "DidReset() before Start", err, hal.ErrNoDevice)
		if r.Armed() {
			t.Error("feeding a watchdog that is not started armed it")
		}
	})
	t.Run("absent", func(t *testing.T) {
		_, err := newRig(t).Absent.Start(15)
		expect(t, "Start(15)", err, hal.ErrNoDevice)
	})
}
