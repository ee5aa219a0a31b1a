package supervise

import (
	"slices"
	"testing"

	"machined/hal"
	"machined/hal/fake"
)

// rig runs a supervisor on simulated processes and time.
type rig struct {
	t         *testing.T
	clock     *fake.Clock
	processes *fake.Processes
	s         *Supervisor
	kicks     int
}

// newRig returns a rig of services, each of which runs the program of its name
// until it is told otherwise.
func newRig(t *testing.T, services ...Service) *rig {
	clock := fake.NewClock(0)
	r := &rig{t: t, clock: clock, processes: fake.NewProcesses(clock)}
	for i := range services {
		services[i].Command = []string{program(services[i].ID)}
		r.processes.AddProgram(program(services[i].ID), fake.Program{})
	}
	r.s = New(r.processes, services, func(string) int { return -1 }, func() { r.kicks++ })
	return r
}

func program(id string) string { return "/bin/" + id }

// step lets the processes and then the supervisor do what is due.
func (r *rig) step() int64 {
	r.t.Helper()
	r.processes.Step()
	now := r.clock.SinceBoot()
	next := r.s.Step(now)
	// A caller that sleeps until next must not find itself back at once again
	// and again.
	for range 2 {
		if next > now {
			return next
		}
		next = r.s.Step(now)
	}
	if next <= now {
		r.t.Fatalf("Step(%d) = %d time after time; want a later time", now, next)
	}
	return next
}

// run goes from event to event for nanos.
func (r *rig) run(nanos int64) {
	r.t.Helper()
	end := r.clock.SinceBoot() + nanos
	for {
		next := r.step()
		if at, any := r.processes.NextEnd(); any {
			next = min(next, at)
		}
		now := r.clock.SinceBoot()
		if next > end {
			r.clock.Advance(end - now)
			return
		}
		r.clock.Advance(next - now)
	}
}

// exit ends the process of the service.
func (r *rig) exit(id string, status hal.ExitStatus) {
	r.t.Helper()
	p := r.find(id)
	if p == nil {
		r.t.Fatalf("%s has no process to end", id)
	}
	r.processes.Exit(p.PID, status)
}

func (r *rig) find(id string) *fake.Process {
	for _, p := range r.processes.Running() {
		if p.Spec.Argv[0] == program(id) {
			return p
		}
	}
	return nil
}

func (r *rig) status(id string) Status {
	r.t.Helper()
	all := r.s.Status()
	i := slices.IndexFunc(all, func(s Status) bool { return s.ID == id })
	if i < 0 {
		r.t.Fatalf("Status() has no %s", id)
	}
	return all[i]
}

func (r *rig) want(id string, state State, message string) {
	r.t.Helper()
	if got := r.status(id); got.State != state || got.Message != message {
		r.t.Errorf("%s at %d s is %s, %q; want %s, %q", id, r.clock.SinceBoot()/second, got.State, got.Message, state, message)
	}
}
