package supervise

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"machined/hal"
	"machined/hal/fake"
)

// TestRandom runs many small worlds of services that crash, hang, ignore TERM
// or cannot be executed. A failure names its seed.
func TestRandom(t *testing.T) {
	worlds := 2000
	if testing.Short() {
		worlds = 200
	}
	for seed := range uint64(worlds) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { randomWorld(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

// watched checks each start.
type watched struct {
	*fake.Processes
	t       *testing.T
	s       *Supervisor
	stopped bool
}

func (w *watched) alive(id string) bool {
	for _, p := range w.Running() {
		if p.Spec.Argv[0] == program(id) {
			return true
		}
	}
	return false
}

func (w *watched) Start(spec hal.ProcessSpec, exited func(hal.ExitStatus)) (int, error) {
	for _, u := range w.s.units {
		if spec.Argv[0] != program(u.ID) {
			continue
		}
		if w.alive(u.ID) {
			w.t.Errorf("%s is started while a process of it is there", u.ID)
		}
		if u.goal == goDown {
			w.t.Errorf("%s is started though it was stopped by hand", u.ID)
		}
	}
	if w.stopped {
		w.t.Errorf("%s is started after Stop", spec.Argv[0])
	}
	return w.Processes.Start(spec, exited)
}

// checked is a world in which each start is checked when it is decided on.
type checked struct {
	*rig
	random   *rand.Rand
	services []Service
	w        *watched
}

func randomWorld(t *testing.T, random *rand.Rand) {
	c := &checked{random: random}
	c.rig = newRig(t, c.randomServices()...)
	c.services = slices.Clone(c.current())
	c.w = &watched{Processes: c.processes, t: t, s: c.s}
	c.s.Processes = c.w
	if random.IntN(2) == 0 { // starts, hooks and probes take time
		c.jobs.Delays = func(int) int64 { return random.Int64N(3 * second) }
		c.s.Jobs, c.prober.jobs = c.jobs, c.jobs
	}
	for range 1 + random.IntN(30) {
		c.mishap()
		c.run(random.Int64N(70 * second))
		c.checkStatus()
	}
	// Each grace is at most 10 s and each hook as long as hookWithin, one after the
	// other; what is not done by then is killed.
	killAt := c.clock.SinceBoot() + random.Int64N(int64(len(c.s.units)+1)*60*second)
	c.s.Stop(killAt)
	c.w.stopped = true
	c.run(killAt - c.clock.SinceBoot() + 40*second)
	if left := c.processes.Running(); len(left) != 0 || !c.s.Done() {
		t.Errorf("%d processes are left and Done() = %v long after Stop; want 0, true", len(left), c.s.Done())
	}
	for _, s := range c.s.Status() {
		if s.State != Finished && s.State != Failed && s.State != Skipped {
			t.Errorf("%s is %s after all have been stopped", s.ID, s.State)
		}
	}
	if c.prober.most > 1 {
		t.Errorf("%d probes of one service were under way at once", c.prober.most)
	}
}

func (c *checked) current() []Service {
	var out []Service
	for _, u := range c.s.units {
		out = append(out, u.Service)
	}
	return out
}

// mishap lets one thing go wrong, or be asked for.
func (c *checked) mishap() {
	random := c.random
	id := c.services[random.IntN(len(c.services))].ID
	switch random.IntN(11) {
	case 0:
		c.processes.RemoveProgram(program(id))
	case 1, 2:
		c.processes.AddProgram(program(id), randomProgram(random))
	case 3:
		if p := c.find(id); p != nil {
			c.processes.Exit(p.PID, hal.ExitStatus{Signal: 11})
		}
	case 4:
		c.processes.Fail("Start", 1+random.IntN(3), hal.ErrInvalid)
	case 5:
		c.prober.answers[id] = hal.ErrInvalid
	case 6:
		delete(c.prober.answers, id)
	case 7:
		c.conds.gates[random.IntN(2)] = []string{"", ": not yet"}[random.IntN(2)]
	case 8:
		if c.cgroups.Find("/services/"+id) != nil {
			c.cgroups.OOM("/services/" + id)
		}
	case 9:
		c.s.mu.Lock()
		c.s.commands = append(c.s.commands, &command{action: Action(random.IntN(3)), id: id, done: make(chan struct{})})
		c.s.mu.Unlock()
	case 10:
		c.update()
	}
}

// update changes one service, and leaves another out.
func (c *checked) update() {
	changed := &c.services[c.random.IntN(len(c.services))]
	changed.Env = []string{fmt.Sprint("N=", c.random.IntN(3))}
	out := c.random.IntN(len(c.services))
	if c.random.IntN(2) == 0 {
		c.s.Update(c.services)
		return
	}
	c.s.Update(slices.Delete(slices.Clone(c.services), out, out+1))
}

// checkStatus compares what is shown with the processes that there are.
func (c *checked) checkStatus() {
	c.t.Helper()
	c.step() // takes in what ended last
	for _, u := range c.s.units {
		state, alive := u.state, c.find(u.ID) != nil
		if state == Running && !alive || alive && state != Running && state != Stopping && state != Starting {
			c.t.Errorf("%s is shown as %s while a process of it exists: %v", u.ID, state, alive)
		}
		if b := u.blocker(); state == Waiting && b == (blocker{}) && u.next == 0 && u.job == nil && !u.goesDown() {
			c.t.Errorf("%s waits for nothing", u.ID)
		}
	}
}

func (c *checked) randomServices() []Service {
	var services []Service
	random := c.random
	hook := func() hal.Job {
		if random.IntN(4) == 0 {
			return nil
		}
		fails := random.IntN(4) == 0
		return c.s.Jobs.Start(func() error {
			if fails {
				return hal.ErrNoSpace
			}
			return nil
		})
	}
	for i := range 1 + random.IntN(8) {
		s := Service{ID: fmt.Sprint("s", i), Restart: Restart(random.IntN(3)), StopGrace: random.Int64N(10 * second)}
		for d := range i {
			if random.IntN(3) == 0 {
				s.DependsOn = append(s.DependsOn, fmt.Sprint("s", d))
			}
		}
		if random.IntN(2) == 0 {
			s.Cgroup = "/services/" + s.ID
		}
		if random.IntN(3) == 0 {
			s.Probe = tcpProbe()
			s.RestartUnhealthyAfter = random.Int64N(2) * 45 * second
		}
		if random.IntN(4) == 0 {
			s.Gates = []Gate{Gate(random.IntN(2))}
		}
		if random.IntN(3) == 0 {
			s.Prepare, s.Cleanup, s.BeforeStop = hook, hook, func(bool) hal.Job { return hook() }
		}
		services = append(services, s)
	}
	return services
}

func randomProgram(random *rand.Rand) fake.Program {
	p := fake.Program{IgnoreTerm: random.IntN(3) == 0, Code: random.IntN(3), StopCode: random.IntN(2), StopDelay: random.Int64N(20 * second)}
	if random.IntN(2) == 0 {
		p.Lifetime = 1 + random.Int64N(100*second)
	}
	return p
}
