package conformance

import (
	"testing"

	"machined/hal"
)

// NTPRig is a client and servers that it can ask.
type NTPRig struct {
	NTP hal.NTP
	// Good has the time of Clock, Silent does not answer, Unready has no time
	// itself. "" leaves a case out.
	Good, Silent, Unready string
	Clock                 hal.Clock
}

// NTP checks a driver.
func NTP(t *testing.T, r NTPRig) {
	t.Run("good server", func(t *testing.T) {
		s, err := r.NTP.Query(r.Good)
		must(t, "Query", err)
		const second = int64(1e9)
		if s.Offset > second || s.Offset < -second || s.Delay < 0 || s.Delay > second {
			t.Errorf("offset %d ns, delay %d ns of a server with our time; want less than a second", s.Offset, s.Delay)
		}
		if s.Stratum == 0 || s.Stratum > 15 || s.Leap == 3 || s.Kiss != "" {
			t.Errorf("the sample is %+v; want one of a server that has the time", s)
		}
		if s.RootDelay < 0 || s.RootDispersion < 0 || s.RootDelay > second || s.RootDispersion > 2*second {
			t.Errorf("root delay %d, root dispersion %d; want small ones", s.RootDelay, s.RootDispersion)
		}
		if now := r.Clock.Now(); s.Reference > now+second || s.Reference < now-24*3600*second {
			t.Errorf("the server was set at %d; want some time before %d", s.Reference, now)
		}
	})
	t.Run("silent server", func(t *testing.T) {
		if r.Silent == "" {
			t.Skip("no such server in this rig")
		}
		if s, err := r.NTP.Query(r.Silent); err == nil {
			t.Errorf("Query of a server that does not answer = %+v; want an error", s)
		}
	})
	t.Run("server without the time", func(t *testing.T) {
		if r.Unready == "" {
			t.Skip("no such server in this rig")
		}
		s, err := r.NTP.Query(r.Unready)
		if err == nil && s.Leap != 3 && s.Stratum != 0 && s.Stratum < 16 {
			t.Errorf("Query of a server without the time = %+v; want that it says so", s)
		}
	})
}
