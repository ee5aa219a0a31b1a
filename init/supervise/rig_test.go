package supervise

import (
	"slices"
	"sync/atomic"
	"testing"

	"machined/hal"
	"machined/hal/fake"
)

// rig runs a supervisor on simulated processes and time.
type rig struct {
	t         *testing.T
	clock     *fake.Clock
	processes *fake.Processes
	jobs      *fake.Jobs
	cgroups   *fake.Cgroups
	prober    *prober
	conds     *conditions
	s         *Supervisor
	kicks     atomic.Int64
}

// promptJobs run at once.
type promptJobs struct{ *fake.Jobs }

func (j promptJobs) Start(run func() error) hal.Job {
	defer j.Step()
	return j.Jobs.Start(run)
}

// prober answers with what the service's entry says; without one it is healthy.
type prober struct {
	jobs    hal.Jobs
	answers map[string]error
	stuck   map[string]bool
	asked   map[string]int
	open    map[string]int // questions under way
	most    int            // that were under way of one service
}

func (p *prober) Probe(s *Service) hal.Job {
	id := s.ID
	p.asked[id]++
	p.open[id]++
	p.most = max(p.most, p.open[id])
	if p.stuck[id] {
		return stuckJob{}
	}
	return p.jobs.Start(func() error { p.open[id]--; return p.answers[id] })
}

// stuckJob never ends.
type stuckJob struct{}

func (stuckJob) Done() bool { return false }
func (stuckJob) Err() error { return nil }

// conditions are met where they have no reason.
type conditions struct {
	gates   [2]string
	volumes map[string]string
}

func (c *conditions) Gate(g Gate) (bool, string) { return c.gates[g] == "", c.gates[g] }
func (c *conditions) Volume(v string) (bool, string) {
	return c.volumes[v] == "", c.volumes[v]
}

// newRig returns a rig of services, each of which runs the program of its name
// until it is told otherwise.
func newRig(t *testing.T, services ...Service) *rig {
	clock := fake.NewClock(0)
	r := &rig{t: t, clock: clock, processes: fake.NewProcesses(clock), jobs: fake.NewJobs(clock)}
	r.cgroups = fake.NewCgroups(r.processes)
	r.prober = &prober{
		jobs: promptJobs{r.jobs}, answers: map[string]error{}, stuck: map[string]bool{}, asked: map[string]int{}, open: map[string]int{},
	}
	r.conds = &conditions{volumes: map[string]string{}}
	for i := range services {
		services[i].Command = []string{program(services[i].ID)}
		r.processes.AddProgram(program(services[i].ID), fake.Program{})
	}
	r.s = New(Drivers{
		Processes: r.processes, Jobs: promptJobs{r.jobs}, Cgroups: r.cgroups, Prober: r.prober, Conds: r.conds, Kick: func() { r.kicks.Add(1) },
	}, services)
	return r
}

func program(id string) string { return "/bin/" + id }

// step lets the processes and then the supervisor do what is due.
func (r *rig) step() int64 {
	r.t.Helper()
	r.processes.Step()
	r.jobs.Step()
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
		if at, any := r.jobs.Due(); any {
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
