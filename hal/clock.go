package hal

// Clock is the wall clock and the time since boot.
type Clock interface {
	// Now returns the wall clock in nanoseconds since 1970-01-01 UTC.
	Now() int64
	// SinceBoot returns the nanoseconds since the kernel started, sleep
	// included (CLOCK_BOOTTIME). It never goes back.
	SinceBoot() int64
	// Set steps the wall clock to unixNanos.
	Set(unixNanos int64) error
	// Slew lets the clock run a little fast or slow until it has gained nanos
	// (adjtime(3), 500 millionths at most). It replaces what is left of the
	// last call. ErrInvalid for more than half a second.
	Slew(nanos int64) error
}
