package linux

import (
	"fmt"
	"net"
	"time"

	"github.com/beevik/ntp"

	"machined/hal"
)

// NTP is the real hal.NTP. Names are resolved as resolv.conf(5) has it.
type NTP struct{}

// ntpTimeout bounds each of the two parts of a query: finding the server, and
// its answer.
const ntpTimeout = 5 * time.Second

// Query implements hal.NTP.
func (NTP) Query(server string) (hal.TimeSample, error) {
	dialer := &net.Dialer{Timeout: ntpTimeout}
	r, err := ntp.QueryWithOptions(server, ntp.QueryOptions{
		Timeout: ntpTimeout,
		// The package's own way resolves a name without a time-out.
		Dialer: func(_, remote string) (net.Conn, error) { return dialer.Dial("udp", remote) },
	})
	if err != nil {
		return hal.TimeSample{}, fmt.Errorf("ask %s for the time: %w", server, err)
	}
	return sampleOf(r), nil
}

func sampleOf(r *ntp.Response) hal.TimeSample {
	s := hal.TimeSample{
		Offset: int64(r.ClockOffset), Delay: int64(r.RTT), Stratum: r.Stratum, Leap: uint8(r.Leap),
		RootDelay: int64(r.RootDelay), RootDispersion: int64(r.RootDispersion),
	}
	// Of stratum 0 alone; a server that has no time itself may say no code.
	s.Kiss = printable([]byte(r.KissCode))
	if !r.ReferenceTime.IsZero() {
		s.Reference = r.ReferenceTime.UnixNano()
	}
	return s
}

var _ hal.NTP = NTP{}
