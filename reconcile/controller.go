package reconcile

import (
	"time"

	"machined/reconcile/resource"
)

// Spec says what a controller is to the loop.
type Spec struct {
	Name string
	// Inputs are the kinds whose changes make it run.
	Inputs []resource.Kind
	// Outputs are the kinds that it writes.
	Outputs []Output
	// Interval is the longest time between two runs; 0 for none.
	Interval time.Duration
	// External counts changes outside of the store, such as those of the
	// kernel's links. One that has moved makes the controller run, up to 64
	// times a second. They are called at each pass, so they have to be cheap
	// and must not allocate.
	External []func() uint64
}

// Controller makes one part of the machine what it is to be.
type Controller interface {
	// Spec is called once, at registration.
	Spec() Spec
	// Reconcile looks at all of its inputs and does what is left to do. It
	// runs when anything may have changed, so it is called often with nothing
	// to do. It must not block. After an error it runs again, later and later.
	Reconcile(*Run) error
}

// Run is one run of a controller.
type Run struct {
	Store *Store
	// Now is the time since boot.
	Now time.Duration
	// By is the controller as a writer.
	By   Owner
	wake time.Duration
}

// never is a time that does not come.
const never = time.Duration(1<<63 - 1)

// WakeAt asks for another run at a time since boot, if nothing moves before.
// The earliest of a run counts; one that has passed is soon.
func (r *Run) WakeAt(at time.Duration) { r.wake = min(r.wake, at) }

// WakeIn asks for another run after d.
func (r *Run) WakeIn(d time.Duration) { r.WakeAt(r.Now + min(d, never-r.Now)) }

// First keeps the first error, so that one thing that fails does not keep the
// others from being done.
func First(kept, err error) error {
	if kept != nil {
		return kept
	}
	return err
}
