package supervise

import (
	"fmt"
	"math/rand/v2"
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
	t        *testing.T
	services []Service
	stopped  bool
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
	for _, s := range w.services {
		if spec.Argv[0] != program(s.ID) {
			continue
		}
		if w.alive(s.ID) {
			w.t.Errorf("%s is started while a process of it is there", s.ID)
		}
		for _, d := range s.DependsOn {
			if !w.alive(d) {
				w.t.Errorf("%s is started while its dependency %s does not run", s.ID, d)
			}
		}
	}
	if w.stopped {
		w.t.Errorf("%s is started after Stop", spec.Argv[0])
	}
	return w.Processes.Start(spec, exited)
}

func randomWorld(t *testing.T, random *rand.Rand) {
	services := randomServices(random)
	r := newRig(t, services...)
	w := &watched{Processes: r.processes, t: t, services: services}
	r.s.processes = w
	for range 1 + random.IntN(30) {
		s := services[random.IntN(len(services))]
		switch random.IntN(5) {
		case 0:
			r.processes.RemoveProgram(program(s.ID))
		case 1, 2:
			r.processes.AddProgram(program(s.ID), randomProgram(random))
		case 3:
			if p := r.find(s.ID); p != nil {
				r.processes.Exit(p.PID, hal.ExitStatus{Signal: 11})
			}
		case 4:
			r.processes.Fail("Start", 1+random.IntN(3), hal.ErrInvalid)
		}
		r.run(random.Int64N(70 * second))
		checkStatus(t, r, services)
	}
	r.s.Stop()
	w.stopped = true
	// Each grace is at most 10 s, one after the other.
	r.run(int64(len(services)+1) * 11 * second)
	if left := r.processes.Running(); len(left) != 0 || !r.s.Done() {
		t.Errorf("%d processes are left and Done() = %v long after Stop; want 0, true", len(left), r.s.Done())
	}
	for _, s := range r.s.Status() {
		if s.State != Finished && s.State != Failed {
			t.Errorf("%s is %s after all have been stopped", s.ID, s.State)
		}
	}
}

// checkStatus compares what is shown with the processes that there are.
func checkStatus(t *testing.T, r *rig, services []Service) {
	t.Helper()
	r.step() // takes in what ended last
	for _, s := range services {
		state := r.status(s.ID).State
		if alive := r.find(s.ID) != nil; alive != (state == Running) {
			t.Errorf("%s is shown as %s while a process of it exists: %v", s.ID, state, alive)
		}
	}
}

func randomServices(random *rand.Rand) []Service {
	var services []Service
	for i := range 1 + random.IntN(8) {
		s := Service{ID: fmt.Sprint("s", i), Restart: Restart(random.IntN(3)), StopGrace: random.Int64N(10 * second)}
		for d := range i {
			if random.IntN(3) == 0 {
				s.DependsOn = append(s.DependsOn, fmt.Sprint("s", d))
			}
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
