package conformance

import (
	"testing"

	"machined/hal"
)

// Clock checks a driver. pass lets some time pass. The clock is not set: a
// real one is everybody's.
func Clock(t *testing.T, clock hal.Clock, pass func()) {
	t.Run("since boot never goes back", func(t *testing.T) {
		last := clock.SinceBoot()
		for range 1000 {
			now := clock.SinceBoot()
			if now < last {
				t.Fatalf("SinceBoot() = %d after %d; want no step back", now, last)
			}
			last = now
		}
	})
	t.Run("both clocks count nanoseconds", func(t *testing.T) {
		wall, boot := clock.Now(), clock.SinceBoot()
		pass()
		dw, db := clock.Now()-wall, clock.SinceBoot()-boot
		if db <= 0 {
			t.Errorf("SinceBoot moved by %d; want more than 0", db)
		}
		const tolerance = int64(1e9)
		if dw < db-tolerance || dw > db+tolerance {
			t.Errorf("Now moved by %d ns while SinceBoot moved by %d", dw, db)
		}
	})
	t.Run("now is Unix time in nanoseconds", func(t *testing.T) {
		const y2020, y2200 = int64(1577836800e9), int64(7258118400e9)
		if now := clock.Now(); now < y2020 || now > y2200 {
			t.Errorf("Now() = %d; want nanoseconds since 1970, between 2020 and 2200", now)
		}
	})
	t.Run("slewing has a limit", func(t *testing.T) {
		for _, nanos := range []int64{500e6 + 1, -500e6 - 1, 1 << 62} {
			expect(t, "Slew beyond half a second", clock.Slew(nanos), hal.ErrInvalid)
		}
	})
}
