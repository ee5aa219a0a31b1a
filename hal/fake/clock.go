package fake

import "machined/hal"

// Clock is a simulated hal.Clock, which moves by Advance only.
type Clock struct {
	Faults
	wall, boot int64
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

// Advance moves both clocks by nanos.
func (c *Clock) Advance(nanos int64) {
	c.wall += nanos
	c.boot += nanos
}

var _ hal.Clock = (*Clock)(nil)
