// Package supervise keeps services running: it starts them once what they
// depend on is healthy, restarts them with backoff, and stops them in reverse
// order.
//
// A Supervisor belongs to one goroutine, which calls Step when something has
// happened or the time that Step returned has come; Do and History alone may be
// called from others. Time is nanoseconds since boot.
package supervise

import (
	"math/rand/v2"
	"slices"
	"sync"

	"machined/hal"
)

const (
	second = int64(1e9)
	// A service that ran for stableAfter is taken for recovered.
	stableAfter = 60 * second
	backoffMin  = 1 * second
	backoffMax  = 60 * second
	// hookWithin bounds the wait for a hook while its service stops.
	hookWithin = 30 * second
	// accountsEvery is how often the accounts of a cgroup are read.
	accountsEvery = 30 * second
	// outputAfter is how long what a process printed last takes to arrive.
	outputAfter = second / 5
	// never is the answer of Step when only an event can change something.
	never = int64(1<<63 - 1)

	sigTerm, sigKill = 15, 9
)

// Conditions are facts of the node that services wait for. Met conditions have
// no reason. The methods are called at each Step and must not block.
type Conditions interface {
	Gate(g Gate) (met bool, why string)
	// Volume reports whether the volume of that name is mounted.
	Volume(name string) (met bool, why string)
}

// Prober asks services whether they are healthy.
type Prober interface {
	// Probe starts one question by the service's Probe, which is answered or given
	// up within its Timeout: the job's error says why the service is not healthy.
	Probe(s *Service) hal.Job
}

// Output gives the file descriptors that a service's output goes to, or -1.
type Output func(id string) (stdout, stderr int)

// Drivers are what services are run with.
type Drivers struct {
	Processes hal.Processes
	Jobs      hal.Jobs
	Cgroups   hal.Cgroups // nil for none: limits are not set then
	Prober    Prober      // nil for none: services with a probe stay unhealthy
	Conds     Conditions  // nil for none: all are met
	Output    Output      // nil for none
	// Tail returns what a service printed last, nil for nobody knows.
	Tail func(id string) string
	// Kick is called from another goroutine when Step has something to do.
	Kick func()
	// Seed spreads the pauses between starts.
	Seed uint64
}

// Supervisor runs a set of services.
type Supervisor struct {
	Drivers
	units    []*unit // dependencies before dependents
	stopping bool
	killAt   int64 // while stopping: when all are killed, whatever their grace
	version  uint64
	random   *rand.Rand

	mu       sync.Mutex // of what other goroutines use
	exits    []exit     // filled by the reaper's goroutine
	commands []*command // as they came
	down     bool       // stopping, for other goroutines
	known    []*unit    // units, for History
}

// exit is the end of a process of that start.
type exit struct {
	of     *attempt
	status hal.ExitStatus
}

// New returns a supervisor of services, which come with dependencies before
// their dependents.
func New(drivers Drivers, services []Service) *Supervisor {
	s := &Supervisor{Drivers: drivers, random: rand.New(rand.NewPCG(drivers.Seed, 1)), killAt: never}
	s.Update(services)
	return s
}

// Stop begins to stop all services, dependents first; Done tells when they have
// ended. At killAt, in nanoseconds since boot, those that are left are killed,
// whatever their grace.
func (s *Supervisor) Stop(killAt int64) {
	s.stopping, s.killAt = true, killAt
	s.mu.Lock()
	s.down = true
	s.mu.Unlock()
}

// Done reports whether Stop was called and no process is left.
func (s *Supervisor) Done() bool {
	return s.stopping && !slices.ContainsFunc(s.units, func(u *unit) bool { return u.active() })
}

// Step does what is due at now and returns when it wants to be called again.
func (s *Supervisor) Step(now int64) int64 {
	s.collect(now)
	s.obey(now)
	next := never
	s.hold()
	for i := len(s.units) - 1; i >= 0; i-- {
		u := s.units[i]
		if u.goesDown() {
			next = min(next, u.down(now))
		}
	}
	for _, u := range s.units {
		if !u.goesDown() {
			next = min(next, u.up(now))
		}
		next = min(next, u.look(now))
	}
	s.forgetGone()
	s.answer()
	if now < s.killAt {
		next = min(next, s.killAt)
	}
	return next
}

// exited is called from the reaper's goroutine.
func (s *Supervisor) exited(of *attempt, status hal.ExitStatus) {
	s.mu.Lock()
	s.exits = append(s.exits, exit{of: of, status: status})
	s.mu.Unlock()
	s.Kick()
}

// collect takes in the processes that have ended since the last step. One may
// have ended before its start was known to have succeeded.
func (s *Supervisor) collect(now int64) {
	s.mu.Lock()
	exits := s.exits
	s.exits = nil
	s.mu.Unlock()
	for _, e := range exits {
		if e.of.exit == nil {
			e.of.exit = &e.status
		}
	}
	for _, u := range s.units {
		u.settleStart(now)
		if u.run != nil && u.run.job == nil && u.run.exit != nil {
			u.ended(*u.run.exit, now)
		}
	}
}
