package fake

import "machined/hal"

// Clock is a simulated hal.Clock, which moves by Advance only.
type Clock struct {
	Faults
	wall, boot int64
	slew       int64 // what is left to gain
}

// NewClock returns a clock of a machine that has just started, with its wall
// clock at unixNanos.
func NewClock(unixNanos int64) *Clock { return &Clock{wall: unixNanos} }

// Now implements hal.Clock.
func (c *Clock) Now() int64 { return c.wall }

// SinceBoot implements hal.Clock.
func (c *Clock) SinceBoot() int64 { return c.boot }

// Set implements hal.Clock.
func (c *Clock) Set(unixNanos int64) error {
	if err := c.failing("Set"); err != nil {
		return err
	}
	// The kernel's limit is lower still (settimeofday(2) refuses a time before
	// the time since boot), but negative times are refused by all of them.
	if unixNanos < 0 {
		return hal.ErrInvalid
	}
	c.wall = unixNanos
	return nil
}

// Slew implements hal.Clock.
func (c *Clock) Slew(nanos int64) error {
	if err := c.failing("Slew"); err != nil {
		return err
	}
	if nanos > 500e6 || nanos < -500e6 {
		return hal.ErrInvalid
	}
	c.slew = nanos
	return nil
}

// Advance moves both clocks by nanos, and the wall clock by as much of a slew
// as the kernel would do meanwhile.
func (c *Clock) Advance(nanos int64) {
	most := nanos / 2000
	gain := min(max(c.slew, -most), most)
	c.slew -= gain
	c.wall += nanos + gain
	c.boot += nanos
}

// Drift makes the wall clock go wrong by nanos, as a bad crystal does.
func (c *Clock) Drift(nanos int64) { c.wall += nanos }

var _ hal.Clock = (*Clock)(nil)
