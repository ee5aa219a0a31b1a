package conformance

import "testing"

// PowerRig ends machines that are there to be ended.
type PowerRig struct {
	// Restart and PowerOff make a machine and call the driver's method on it.
	// They return how it ended.
	Restart  func(t *testing.T, arg string) Ended
	PowerOff func(t *testing.T) Ended
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
}
