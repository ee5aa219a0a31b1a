// Package fake simulates the drivers of package hal, with faults on demand.
//
// It keeps to what TinyGo compiles to a small program: no goroutines, no
// reflection, no maps, and time only from its own Clock. Nothing here happens
// by itself: a test, or a simulation, moves the clock and steps the drivers.
package fake

import "machined/hal"

// Errors of the simulated kernel that package hal has no name for.
const (
	// ErrEnded is what Power answers: a call that has ended the machine can
	// not return, and here it has to.
	ErrEnded hal.Error = "the simulated machine has ended"
	// ErrBusy says that a mount is in use.
	ErrBusy hal.Error = "device or resource busy"
	// ErrReadOnly says that a read-only device cannot be mounted for writing.
	ErrReadOnly hal.Error = "permission denied"
	// ErrUnreachable says that a gateway is on no network of its link.
	ErrUnreachable hal.Error = "network is unreachable"
	// ErrDown says that a link has to be up first.
	ErrDown hal.Error = "network is down"
	// ErrNoProgram says that there is nothing at the path of a command.
	ErrNoProgram hal.Error = "no such file or directory"
)

// Faults makes chosen calls of a driver fail. Each driver has one embedded.
type Faults struct{ planned []fault }

type fault struct {
	method string
	after  int // calls that still pass
	times  int // failures left; negative means for ever
	err    error
}

// Fail makes the nth next call of method (1 is the very next) fail with err,
// and only that one.
func (f *Faults) Fail(method string, nth int, err error) {
	f.planned = append(f.planned, fault{method: method, after: nth - 1, times: 1, err: err})
}

// FailAlways makes every call of method fail with err until Heal.
func (f *Faults) FailAlways(method string, err error) {
	f.planned = append(f.planned, fault{method: method, times: -1, err: err})
}

// Heal takes the planned faults of method back.
func (f *Faults) Heal(method string) {
	kept := f.planned[:0]
	for _, p := range f.planned {
		if p.method != method {
			kept = append(kept, p)
		}
	}
	f.planned = kept
}

// failing counts a call of method and returns the error that it is to fail
// with, or nil.
func (f *Faults) failing(method string) error {
	var err error
	for i := range f.planned {
		p := &f.planned[i]
		switch {
		case p.method != method || p.times == 0:
		case p.after > 0:
			p.after--
		default:
			if p.times > 0 {
				p.times--
			}
			err = p.err
		}
	}
	return err
}
