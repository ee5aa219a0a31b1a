package fake

import "machined/hal"

const second = int64(1e9)

// Watchdog is a simulated hal.Watchdog on the time of a Clock.
type Watchdog struct {
	Faults
	// Absent says that the board has no watchdog.
	Absent bool
	// Max is the longest timeout in seconds that the hardware has; 0 means
	// that any will do.
	Max int
	// Reset says that it has reset the machine before this boot.
	Reset bool

	clock    *Clock
	armed    bool
	timeout  int64 // nanoseconds
	deadline int64 // since boot
	fired    bool
}

// NewWatchdog returns a watchdog that counts on clock.
func NewWatchdog(clock *Clock) *Watchdog { return &Watchdog{clock: clock} }

// Start implements hal.Watchdog.
func (w *Watchdog) Start(timeoutSeconds int) (int, error) {
	if err := w.failing("Start"); err != nil {
		return 0, err
	}
	if w.Absent {
		return 0, hal.ErrNoDevice
	}
	if w.Max > 0 && timeoutSeconds > w.Max {
		timeoutSeconds = w.Max
	}
	w.armed, w.timeout = true, int64(timeoutSeconds)*second
	w.deadline = w.clock.SinceBoot() + w.timeout
	return timeoutSeconds, nil
}

// Feed implements hal.Watchdog.
func (w *Watchdog) Feed() error {
	if err := w.failing("Feed"); err != nil {
		return err
	}
	if !w.armed {
		return hal.ErrNoDevice
	}
	if !w.Fired() {
		w.deadline = w.clock.SinceBoot() + w.timeout
	}
	return nil
}

// Disarm implements hal.Watchdog.
func (w *Watchdog) Disarm() error {
	if err := w.failing("Disarm"); err != nil {
		return err
	}
	if !w.armed {
		return hal.ErrNoDevice
	}
	if !w.Fired() {
		w.armed = false
	}
	return nil
}

// DidReset implements hal.Watchdog.
func (w *Watchdog) DidReset() (bool, error) {
	if err := w.failing("DidReset"); err != nil {
		return false, err
	}
	if !w.armed {
		return false, hal.ErrNoDevice
	}
	return w.Reset, nil
}

// Armed reports whether the timer runs.
func (w *Watchdog) Armed() bool { return w.armed }

// Fired reports whether the watchdog has reset the machine: once it has, no
// feeding brings the machine back.
func (w *Watchdog) Fired() bool {
	w.fired = w.fired || w.armed && w.clock.SinceBoot() >= w.deadline
	return w.fired
}

var _ hal.Watchdog = (*Watchdog)(nil)
