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

// Slew implements hal.Clock. A clock that is slewed is right within half a
// second; the kernel is told so, and keeps the clock that runs without power by
// it.
func (Clock) Slew(nanos int64) error {
	// ADJ_OFFSET_SINGLESHOT of adjtimex(2) counts microseconds, and replaces
	// what is left of the last one. The kernel itself has no limit; half a
	// second takes it 1000 s.
	const most = int64(500 * time.Millisecond)
	err := error(hal.ErrInvalid)
	if -most <= nanos && nanos <= most {
		_, err = unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_OFFSET_SINGLESHOT, Offset: nanos / 1000})
	}
	if err != nil {
		return fmt.Errorf("slew the clock by %s: %w", time.Duration(nanos), err)
	}
	// Without STA_UNSYNC. The kernel sets it again when the error, which grows
	// by 500 millionths of the time, exceeds 16 s: after eight hours.
	_, err = unix.Adjtimex(&unix.Timex{
		Modes: unix.ADJ_STATUS | unix.ADJ_MAXERROR | unix.ADJ_ESTERROR, Maxerror: most / 1000, Esterror: most / 1000,
	})
	if err != nil {
		return fmt.Errorf("tell the kernel that the clock is right: %w", err)
	}
	return nil
}

var _ hal.Clock = Clock{}
