package fake

import "machined/hal"

// NTP simulates hal.NTP: servers that have the true time, which is not what the
// clock says.
type NTP struct {
	Faults
	// Asked are the servers that were asked, in order.
	Asked []string

	clock   *Clock
	truth   int64 // true time at the start of the machine, in Unix nanoseconds
	servers []*NTPServer
}

// NTPServer is a simulated time server.
type NTPServer struct {
	Name string
	// Offset is what its time is ahead of the true one, Delay the time of the
	// round trip, both in nanoseconds.
	Offset, Delay int64
	Stratum       uint8 // 0 for 2
	Leap          uint8
	RootDelay     int64
	RootDispersed int64
	Kiss          string
	Silent        bool
}

// ErrTimeout says that nobody answered.
const ErrTimeout hal.Error = "i/o timeout"

// NewNTP returns a network without servers, whose true time at the start of the
// machine is unixNanos.
func NewNTP(clock *Clock, unixNanos int64) *NTP { return &NTP{clock: clock, truth: unixNanos} }

// Join adds a server.
func (n *NTP) Join(s *NTPServer) { n.servers = append(n.servers, s) }

// True returns the true time in Unix nanoseconds.
func (n *NTP) True() int64 { return n.truth + n.clock.SinceBoot() }

// Error returns by how much the clock is ahead of the true time, in
// nanoseconds.
func (n *NTP) Error() int64 { return n.clock.Now() - n.True() }

// Query implements hal.NTP. It takes no time: see Jobs.
func (n *NTP) Query(server string) (hal.TimeSample, error) {
	n.Asked = append(n.Asked, server)
	if err := n.failing("Query"); err != nil {
		return hal.TimeSample{}, err
	}
	for _, s := range n.servers {
		if s.Name == server && !s.Silent {
			return s.sample(n), nil
		}
	}
	return hal.TimeSample{}, ErrTimeout
}

func (s *NTPServer) sample(n *NTP) hal.TimeSample {
	t := hal.TimeSample{
		Offset: n.True() + s.Offset - n.clock.Now(), Delay: s.Delay, Stratum: s.Stratum, Leap: s.Leap,
		RootDelay: s.RootDelay, RootDispersion: s.RootDispersed, Reference: n.True(), Kiss: s.Kiss,
	}
	if t.Stratum == 0 && s.Kiss == "" {
		t.Stratum = 2
	}
	return t
}

var _ hal.NTP = (*NTP)(nil)
