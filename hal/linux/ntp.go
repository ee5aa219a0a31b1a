package linux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/beevik/ntp"

	"machined/hal"
)

// NTP is the real hal.NTP.
type NTP struct {
	// Resolver is a file as resolv.conf(5) has it, whose name servers are
	// asked: as it is at each query, which Go's own resolver would notice
	// seconds late. Empty leaves the choice to Go.
	Resolver string
}

// ntpTimeout bounds each of the two parts of a query: finding the server, and
// its answer.
const ntpTimeout = 5 * time.Second

// Query implements hal.NTP.
func (n NTP) Query(server string) (hal.TimeSample, error) {
	dialer := &net.Dialer{Timeout: ntpTimeout}
	if n.Resolver != "" {
		dialer.Resolver = fileResolver(n.Resolver)
	}
	r, err := ntp.QueryWithOptions(server, ntp.QueryOptions{
		Timeout: ntpTimeout,
		// The package's own way resolves a name without a time-out.
		Dialer: func(_, remote string) (net.Conn, error) { return dialer.Dial("udp", remote) },
	})
	if err != nil {
		return hal.TimeSample{}, fmt.Errorf("ask %s for the time: %w", server, n.plain(err))
	}
	return sampleOf(r), nil
}

// errNoNameserver is what a node meets on a network of IPv6 alone: the name servers
// of router advertisements are not read.
const errNoNameserver hal.Error = "there is no name server; set machine.network.nameservers"

// plain takes the ports of our own side out of an error, which differ from try
// to try and tell nobody anything.
func (n NTP) plain(err error) error {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &dns) && n.nobodyToAsk():
		return errNoNameserver
	case errors.As(err, &dns) && dns.IsNotFound:
		return errors.New("there is no such host")
	case errors.As(err, &dns):
		return errors.New("no name server answers")
	case errors.As(err, &op):
		return op.Err
	}
	return err
}

// nobodyToAsk reports whether the resolver's file is there and names no server.
func (n NTP) nobodyToAsk() bool {
	text, err := os.ReadFile(n.Resolver)
	return err == nil && len(nameservers(string(text))) == 0
}

// fileResolver asks the name servers of a file in turn. Go asks for one of its
// own choice, again after a failure.
func fileResolver(path string) *net.Resolver {
	var next atomic.Uint32
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		servers := nameservers(string(text))
		if len(servers) == 0 {
			return nil, fmt.Errorf("%s names no name server", path)
		}
		server := servers[int(next.Add(1)-1)%len(servers)]
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(server, "53"))
	}}
}

func nameservers(text string) []string {
	var servers []string
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "nameserver" {
			servers = append(servers, f[1])
		}
	}
	return servers
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
