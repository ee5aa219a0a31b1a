package timesync

import "time"

// LifeText says how long after its build a program believes a time. A board that
// goes on for longer needs a newer one. Without such a bound, one absurd word of a
// server puts the clock where no client certificate is valid, and the time that is
// kept puts it there at each start.
const LifeText = "20 years"

const life = int64(20 * 365 * 24 * time.Hour)

// Ceiling returns the Unix time in nanoseconds from which on no time is believed,
// for that before which none is. Where nobody knows the time of the build, whose
// floor is 0, all are.
func Ceiling(floor int64) int64 {
	if floor <= 0 {
		return 1<<63 - 1
	}
	return floor + life
}
