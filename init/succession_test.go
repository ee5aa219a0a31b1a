package main

import (
	"errors"
	"testing"

	"machined/api"
)

// TestEndingBeforeSuccession tells of a shutdown that was granted and never
// came: the call reached the program in the initramfs a moment before it
// executed its successor, which knew nothing of it.
func TestEndingBeforeSuccession(t *testing.T) {
	r := newRig(t)
	r.boot.Resident = true
	mustDo(t, r.Shutdown("test"))
	mustDo(t, r.succeed(&preloaded{}))
	if !r.boot.Resident || r.systemStatus != nil {
		t.Error("the node went on to its successor; want it to stay and go down")
	}
	if got, err := r.loop(); err != nil || got == nil || got.end != powerOff {
		t.Errorf("loop() = %+v, %v; want the power-off that was asked for", got, err)
	}
}

// TestEndingDuringSuccession checks that an ending which comes too late is
// refused, and granted again when there is no successor after all.
func TestEndingDuringSuccession(t *testing.T) {
	r := newRig(t)
	r.boot.Resident = true
	if !r.closeRequests() {
		t.Fatal("closeRequests() = false with nothing asked for; want true")
	}
	if err := r.Reboot("test"); !errors.Is(err, api.ErrBusy) {
		t.Errorf("Reboot() during the succession = %v; want %v", err, api.ErrBusy)
	}
	mustDo(t, r.stayResident(errors.New("no successor")))
	mustDo(t, r.Reboot("test"))
}
