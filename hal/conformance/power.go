package conformance

import (
	"errors"
	"testing"

	"machined/hal"
)

// PowerRig ends machines that are there to be ended.
type PowerRig struct {
	// Restart and PowerOff make a machine and call the driver's method on it.
	// They return how it ended.
	Restart  func(t *testing.T, arg string) Ended
	PowerOff func(t *testing.T) Ended
	// StartKernel calls the method on a machine that has no kernel loaded, and
	// LoadKernel with files that are not there.
	StartKernel, LoadKernel func(t *testing.T) error
}

// Ended is how a machine ended.
type Ended uint8

const (
	Running Ended = iota
	Restarted
	SwitchedOff
)

// Power checks a driver.
func Power(t *testing.T, r PowerRig) {
	for _, arg := range []string{"", "0 tryboot"} {
		if got := r.Restart(t, arg); got != Restarted {
			t.Errorf("Restart(%q) left the machine in state %d; want %d (restarted)", arg, got, Restarted)
		}
	}
	if got := r.PowerOff(t); got != SwitchedOff {
		t.Errorf("PowerOff() left the machine in state %d; want %d (off)", got, SwitchedOff)
	}
	if err := r.StartKernel(t); !errors.Is(err, hal.ErrNotFound) {
		t.Errorf("StartKernel() without a kernel = %v; want %v", err, hal.ErrNotFound)
	}
	if err := r.LoadKernel(t); !errors.Is(err, hal.ErrNotFound) && !errors.Is(err, hal.ErrUnsupported) {
		t.Errorf("LoadKernel() of no file = %v; want %v, or %v where no kernel can be loaded", err, hal.ErrNotFound, hal.ErrUnsupported)
	}
}
