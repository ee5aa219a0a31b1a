package linux

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"machined/hal"
)

// Clock is the real hal.Clock.
type Clock struct{}

// Now implements hal.Clock.
func (Clock) Now() int64 { return time.Now().UnixNano() }

// SinceBoot implements hal.Clock.
func (Clock) SinceBoot() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return ts.Nano()
}

// Set implements hal.Clock.
func (Clock) Set(unixNanos int64) error {
	ts := unix.NsecToTimespec(unixNanos)
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
		return fmt.Errorf("set the clock to %s: %w", time.Unix(0, unixNanos).UTC().Format(time.RFC3339), err)
	}
	return nil
}

var _ hal.Clock = Clock{}
