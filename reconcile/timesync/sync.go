// Package timesync keeps the clock right: it asks time servers, believes those
// that agree, and sets or slews the clock.
package timesync

import (
	"slices"
	"time"

	"machined/hal"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// Settings are the time part of the machine config.
type Settings struct {
	// Servers are host or host:port. Without any, DHCP names them, or else
	// they are the public ones of Fallback.
	Servers  []string
	Disabled bool
}

// Fallback returns the servers of a node that nobody has told of any.
func Fallback() []string { return []string{"time.cloudflare.com", "pool.ntp.org"} }

const (
	// maxServers is how many are asked in one round: enough to outvote one
	// that is wrong.
	maxServers = 4
	// stepFrom is the offset from which the clock is set and not slewed, as in
	// RFC 5905 (STEPT): slewing it would take minutes.
	stepFrom = int64(128 * time.Millisecond)
	// A round that finds less than longerBelow is followed by one twice as
	// late, one that finds more than shorterFrom by one half as late.
	longerBelow, shorterFrom = int64(10 * time.Millisecond), int64(40 * time.Millisecond)
	// doubtFrom is the offset that a clock which has been right is not set by
	// before a second round says the same (RFC 5905, PANICT).
	doubtFrom = int64(1000 * time.Second)
	// offAtMost is how far ahead of where the clock started the time may be without
	// a second round that says the same: a board without a clock of its own starts
	// where it was last, and months later is nothing strange.
	offAtMost = int64(365 * 24 * time.Hour)
	// agreeWithin is how far apart two rounds may be that say the same: each may be
	// off by maxDistance.
	agreeWithin = 2 * maxDistance

	retryMin, retryMax = 2 * time.Second, 64 * time.Second
	pollMin, pollMax   = 64 * time.Second, 2048 * time.Second
	// staleAfter without an answer the clock is no longer called synchronised.
	staleAfter = 3 * pollMax
	// roundMax bounds a round; servers that are slower than that are left out.
	roundMax = 10 * time.Second
	// banned is how long a server that asks to be left alone is.
	banned = time.Hour
)

// Sync keeps the clock by SNTP.
type Sync struct {
	Settings func() *Settings
	Clock    hal.Clock
	NTP      hal.NTP
	Jobs     hal.Jobs
	// Floor is the Unix time in nanoseconds before which no server is
	// believed, nor from Ceiling(Floor) on.
	Floor int64
	// Seed spreads the rounds of nodes that start together.
	Seed uint64

	round   []query // under way; nil between rounds
	ends    time.Duration
	next    time.Duration // start of the next round
	poll    time.Duration
	retries int
	last    time.Duration // round that succeeded last
	doubted int64         // unlikely offset that the last round saw, 0 for none
	bans    []ban
	routes  uint64
	began   time.Duration // of the last round
	asked   []string      // the servers that were wanted then; nil before the first
	status  resource.TimeStatus
	started bool
}

type query struct {
	server string
	job    hal.Job
	sample *hal.TimeSample
}

type ban struct {
	server string
	until  time.Duration
}

func (s *Sync) Spec() reconcile.Spec {
	return reconcile.Spec{
		Name:     "time-sync",
		Inputs:   []resource.Kind{resource.MachineConfigKind, resource.LeaseStatusKind, resource.RouteStatusKind},
		External: []func() uint64{s.Jobs.Ended},
		Outputs:  []reconcile.Output{{Kind: resource.TimeStatusKind}},
	}
}

func (s *Sync) Reconcile(r *reconcile.Run) error {
	if s.Settings().Disabled {
		s.round, s.started, s.next, s.retries = nil, false, 0, 0
		s.status.Synced, s.status.Server, s.status.Message = false, "", "disabled by the config"
		return r.Store.Time.Put(r.By, s.status)
	}
	if !s.started {
		s.started = true
		s.status.Message = "waiting for the network"
	}
	s.hasten(r)
	var failed error
	switch {
	case s.round != nil && (s.complete() || r.Now >= s.ends):
		failed = s.finish(r.Now)
	case s.round == nil && r.Now >= s.next:
		s.begin(r)
	}
	if s.status.Synced && r.Now > s.last+staleAfter {
		s.status.Synced, s.status.Message = false, "no server has answered for "+staleAfter.String()
	}
	if s.round != nil {
		r.WakeAt(s.ends)
	} else {
		r.WakeAt(s.next)
	}
	if err := r.Store.Time.Put(r.By, s.status); failed == nil {
		failed = err
	}
	return failed
}

// hasten has the next round begin soon where waiting makes no sense: other
// servers are to be asked, or a new route may be the way to one. A round that is
// under way is waited for.
func (s *Sync) hasten(r *reconcile.Run) {
	if s.round != nil {
		return
	}
	routes := r.Store.Seq(resource.RouteStatusKind)
	if routes != s.routes && !s.status.Synced || s.asked != nil && !slices.Equal(s.asked, s.wanted(r.Store)) {
		s.next, s.retries = min(s.next, max(r.Now, s.began+retryMin)), 0
	}
	s.routes = routes
}

// begin asks the servers.
func (s *Sync) begin(r *reconcile.Run) {
	if !routed(r.Store) {
		s.wait(r.Now, "waiting for a route to a time server")
		return
	}
	s.began, s.asked = r.Now, slices.Clone(s.wanted(r.Store))
	servers := s.servers(r.Now)
	if len(servers) == 0 {
		s.wait(r.Now, "all time servers ask to be left alone")
		return
	}
	s.round, s.ends = nil, r.Now+roundMax
	for _, server := range servers {
		sample, ntp := new(hal.TimeSample), s.NTP
		s.round = append(s.round, query{server: server, sample: sample, job: s.Jobs.Start(func() (err error) {
			*sample, err = ntp.Query(server)
			return err
		})})
	}
}

// routed reports whether there is a way to anywhere beyond the loopback and the
// neighbours that have no address but that of the link.
func routed(s *reconcile.Store) bool {
	for i := 0; i < s.Routes.Len(); i++ {
		route, _ := s.Routes.At(i)
		to := route.Destination
		local := to.Address.Len == 16 && to.Bits >= 10 && to.Address.Bytes[0] == 0xfe && to.Address.Bytes[1]&0xc0 == 0x80
		if route.Link != "" && route.Link != "lo" && !local {
			return true
		}
	}
	return false
}

// wanted returns the servers of the config, of DHCP, or the public ones.
func (s *Sync) wanted(store *reconcile.Store) []string {
	if servers := s.Settings().Servers; len(servers) > 0 {
		return servers
	}
	if servers := leased(store); len(servers) > 0 {
		return servers
	}
	return Fallback()
}

// servers returns those of the last wanted ones that may be asked.
func (s *Sync) servers(now time.Duration) []string {
	var servers []string
	for _, server := range s.asked {
		if !s.isBanned(server, now) && len(servers) < maxServers {
			servers = append(servers, server)
		}
	}
	return servers
}

func leased(s *reconcile.Store) []string {
	var servers []string
	for i := 0; i < s.Leases.Len(); i++ {
		lease, _ := s.Leases.At(i)
		servers = append(servers, words(lease.TimeServers)...)
	}
	return servers
}

func (s *Sync) isBanned(server string, now time.Duration) bool {
	for _, b := range s.bans {
		if b.server == server && now < b.until {
			return true
		}
	}
	return false
}

func (s *Sync) complete() bool {
	for _, q := range s.round {
		if !q.job.Done() {
			return false
		}
	}
	return true
}

// wait plans a retry, sooner at first: a board that has just started needs the
// time for its certificates.
func (s *Sync) wait(now time.Duration, why string) {
	s.next = now + min(retryMin<<min(s.retries, 5), retryMax) + s.spread(time.Second)
	s.retries++
	s.status.Message = why
}

func (s *Sync) spread(most time.Duration) time.Duration {
	s.Seed = s.Seed*6364136223846793005 + 1442695040888963407 // Knuth's MMIX
	return time.Duration(s.Seed>>33) % most
}
