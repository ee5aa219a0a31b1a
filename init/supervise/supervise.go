// Package supervise keeps services running: it starts them once what they
// depend on runs, restarts them with backoff, and stops them in reverse order.
//
// A Supervisor belongs to one goroutine, which calls Step when something has
// happened or the time that Step returned has come. Time is nanoseconds since
// boot.
package supervise

import (
	"fmt"
	"slices"
	"sync"

	"machined/hal"
)

// Restart says when a service that has ended is started again.
type Restart uint8

const (
	Always Restart = iota
	OnFailure
	Never
)

// Service is what to run.
type Service struct {
	ID        string
	Command   []string
	Env       []string
	Dir       string
	UID, GID  uint32
	DependsOn []string
	Restart   Restart
	// StopGrace is the time between TERM and KILL, in nanoseconds.
	StopGrace int64
}

// State is where a service is in its life.
type State uint8

const (
	Waiting State = iota
	Running
	Stopping
	Finished
	Failed
)

// String returns the state's name in the API.
func (s State) String() string {
	switch s {
	case Waiting:
		return "Waiting"
	case Running:
		return "Running"
	case Stopping:
		return "Stopping"
	case Finished:
		return "Finished"
	case Failed:
		return "Failed"
	}
	return "Unknown"
}

// Status is what the API shows of a service.
type Status struct {
	ID      string
	State   State
	Message string
}

const (
	second = int64(1e9)
	// A service that ran for stableAfter is taken for recovered.
	stableAfter = 60 * second
	backoffMin  = 1 * second
	backoffMax  = 60 * second
	// never is the answer of Step when only an event can change something.
	never = int64(1<<63 - 1)

	sigTerm, sigKill = 15, 9
)

// Output gives the file descriptor that a service's output goes to, or -1.
type Output func(id string) int

// Supervisor runs a set of services.
type Supervisor struct {
	processes hal.Processes
	output    Output
	kick      func()
	units     []*unit // dependencies before dependents
	stopping  bool

	// exits is filled by the reaper's goroutine.
	mu    sync.Mutex
	exits []hal.ExitStatus
}

// unit is a service and its state.
type unit struct {
	Service
	state   State
	message string
	pid     int
	started int64 // when it was last started
	next    int64 // when to start it again, or to kill it
	backoff int64
	killed  bool
	held    bool // while all stop: a dependent is still there
}

// New returns a supervisor of services, which come with dependencies before
// their dependents. kick is called from another goroutine when a process has
// ended and Step has something to do.
func New(processes hal.Processes, services []Service, output Output, kick func()) *Supervisor {
	s := &Supervisor{processes: processes, output: output, kick: kick}
	for _, svc := range services {
		s.units = append(s.units, &unit{Service: svc, backoff: backoffMin, message: "not started yet"})
	}
	return s
}

// Status returns the services in the order of their start.
func (s *Supervisor) Status() []Status {
	out := make([]Status, 0, len(s.units))
	for _, u := range s.units {
		out = append(out, Status{ID: u.ID, State: u.state, Message: u.message})
	}
	return out
}

// Stop begins to stop all services; Done tells when they have ended.
func (s *Supervisor) Stop() { s.stopping = true }

// Done reports whether Stop was called and no process is left.
func (s *Supervisor) Done() bool {
	return s.stopping && !slices.ContainsFunc(s.units, func(u *unit) bool { return u.pid != 0 })
}

// Step does what is due at now and returns when it wants to be called again.
func (s *Supervisor) Step(now int64) int64 {
	s.collect(now)
	if s.stopping {
		return s.stopAll(now)
	}
	next := never
	for _, u := range s.units {
		next = min(next, s.start(u, now))
	}
	return next
}

func (s *Supervisor) exited(status hal.ExitStatus) {
	s.mu.Lock()
	s.exits = append(s.exits, status)
	s.mu.Unlock()
	s.kick()
}

// collect takes in the processes that have ended since the last step.
func (s *Supervisor) collect(now int64) {
	s.mu.Lock()
	exits := s.exits
	s.exits = nil
	s.mu.Unlock()
	for _, e := range exits {
		for _, u := range s.units {
			if u.pid != 0 && u.pid == e.PID {
				u.ended(e, now)
				break
			}
		}
	}
}

// ended decides what becomes of a service whose process has ended.
func (u *unit) ended(e hal.ExitStatus, now int64) {
	how := fmt.Sprintf("exited with code %d", e.Code)
	if e.Signal != 0 {
		how = fmt.Sprintf("was ended by signal %d", e.Signal)
	}
	wasStopping := u.state == Stopping
	u.pid = 0
	ok := e.Code == 0 && e.Signal == 0
	switch {
	case wasStopping && u.killed:
		u.state, u.message = Failed, fmt.Sprintf("killed: it did not end within its grace of %d s", u.StopGrace/second)
	case wasStopping:
		u.state, u.message = Finished, "stopped: "+how
	case u.Restart == Always, u.Restart == OnFailure && !ok:
		u.retry(how, now)
	case ok:
		u.state, u.message = Finished, how
	default:
		u.state, u.message = Failed, how
	}
}

// retry schedules the next start, later after each quick end.
func (u *unit) retry(why string, now int64) {
	if now-u.started >= stableAfter {
		u.backoff = backoffMin
	}
	u.state, u.next = Waiting, now+u.backoff
	u.message = fmt.Sprintf("%s; starting again after %d s", why, u.backoff/second)
	u.backoff = min(2*u.backoff, backoffMax)
}

// start starts u if it may be started now.
func (s *Supervisor) start(u *unit, now int64) int64 {
	if u.state != Waiting {
		return never
	}
	if now < u.next {
		return u.next
	}
	if missing := s.missing(u); missing != "" {
		u.message = "waiting for " + missing
		return never
	}
	out := s.output(u.ID)
	pid, err := s.processes.Start(hal.ProcessSpec{
		Argv: u.Command, Env: u.Env, Dir: u.Dir, UID: u.UID, GID: u.GID, Stdout: out, Stderr: out,
	}, s.exited)
	if err != nil {
		u.started = now
		if u.Restart == Never {
			u.state, u.message = Failed, err.Error()
			return never
		}
		u.retry(err.Error(), now)
		return u.next
	}
	u.pid, u.state, u.started, u.message = pid, Running, now, "running"
	return never
}

// missing names the first dependency that does not run.
func (s *Supervisor) missing(u *unit) string {
	for _, id := range u.DependsOn {
		i := slices.IndexFunc(s.units, func(d *unit) bool { return d.ID == id })
		if i < 0 {
			return id + ", which this node does not run"
		}
		if s.units[i].state != Running {
			return id
		}
	}
	return ""
}

// stopAll moves each service one step towards its end, dependents first.
func (s *Supervisor) stopAll(now int64) int64 {
	next := never
	for i := len(s.units) - 1; i >= 0; i-- {
		u := s.units[i]
		u.held = isHeld(u, s.units[i+1:])
		next = min(next, s.stop(u, now))
	}
	return next
}

// isHeld reports whether one of the later services still needs u: directly, or
// by way of one that has ended itself.
func isHeld(u *unit, later []*unit) bool {
	return slices.ContainsFunc(later, func(d *unit) bool {
		return (d.pid != 0 || d.held) && slices.Contains(d.DependsOn, u.ID)
	})
}

func (s *Supervisor) stop(u *unit, now int64) int64 {
	if u.pid == 0 {
		if u.state == Waiting {
			u.state, u.message = Finished, "stopped while it was not running"
		}
		return never
	}
	if u.held {
		return never
	}
	switch {
	case u.state != Stopping:
		u.state, u.next, u.message = Stopping, now+u.StopGrace, "asked to end"
		s.signal(u, sigTerm)
	case !u.killed && now >= u.next:
		u.killed, u.message = true, "being killed: its grace has expired"
		s.signal(u, sigKill)
	}
	if u.killed {
		return never
	}
	return u.next
}

// signal ignores a group that is gone: its exit status is on the way.
func (s *Supervisor) signal(u *unit, signal int) {
	if err := s.processes.Signal(u.pid, signal); err != nil {
		u.message += fmt.Sprintf(" (%v)", err)
	}
}
