package main

import (
	"fmt"
	"strconv"
	"time"

	"machined/hal"
)

// buildTime is the Unix time of the sources, in seconds; the build sets it.
var buildTime = "0"

// floorClock steps a clock that stands before floor to it. A board without a
// clock wakes up in 1970, where no certificate is valid yet.
func floorClock(clock hal.Clock, floor time.Time) (stepped bool, err error) {
	if clock.Now() >= floor.UnixNano() {
		return false, nil
	}
	if err := clock.Set(floor.UnixNano()); err != nil {
		return false, fmt.Errorf("raise the clock to its floor: %w", err)
	}
	return true, nil
}

// builtAt returns the time of the sources that this program was built from.
func builtAt() time.Time {
	seconds, err := strconv.ParseInt(buildTime, 10, 64)
	if err != nil {
		return time.Unix(0, 0)
	}
	return time.Unix(seconds, 0)
}
