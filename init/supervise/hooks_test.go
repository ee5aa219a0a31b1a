package supervise

import (
	"slices"
	"testing"

	"machined/hal"
	"machined/hal/fake"
)

// hooks makes hooks that take time on the rig's clock, fail on demand, and note
// when they end.
type hooks struct {
	jobs  *fake.Jobs
	fails map[string]error
	ran   []string
}

func (h *hooks) hook(name string) Hook {
	return func() hal.Job {
		return h.jobs.Start(func() error { h.ran = append(h.ran, name); return h.fails[name] })
	}
}

func newHooks(r *rig) *hooks {
	r.jobs.Delay = 2 * second
	r.s.Jobs = promptJobs{fake.NewJobs(r.clock)} // of starts
	return &hooks{jobs: r.jobs, fails: map[string]error{}}
}

func TestLife(t *testing.T) {
	r := newRig(t, Service{ID: "app", StopGrace: 5 * second})
	h := newHooks(r)
	u := r.s.units[0]
	u.Prepare, u.Cleanup = h.hook("prepare"), h.hook("cleanup")
	u.BeforeStop = func(down bool) hal.Job {
		if !down {
			t.Error("BeforeStop is told that the service alone goes down")
		}
		return h.hook("before")()
	}
	r.run(second)
	r.want("app", Preparing, "being prepared")
	r.run(2 * second)
	r.want("app", Running, "running")
	r.s.Stop(never)
	r.run(second)
	r.want("app", Stopping, "what it has begun is ended first")
	if len(r.find("app").Signals) != 0 {
		t.Error("app was signalled before what it has begun was ended")
	}
	r.run(2 * second)
	r.want("app", Stopping, "stopped: was ended by signal 15; being cleaned up after")
	if r.s.Done() {
		t.Error("Done before the clean-up")
	}
	r.run(2 * second)
	r.want("app", Finished, "stopped: was ended by signal 15")
	var states []State
	for _, c := range r.s.History("app") {
		states = append(states, c.State)
	}
	if want := []State{Waiting, Preparing, Starting, Running, Stopping, Finished}; !slices.Equal(states, want) {
		t.Errorf("the states were %v; want %v", states, want)
	}
	if want := []string{"prepare", "before", "cleanup"}; !slices.Equal(h.ran, want) || !r.s.Done() {
		t.Errorf("the hooks ran as %v, Done() = %v; want %v, true", h.ran, r.s.Done(), want)
	}
}

func TestPrepareFails(t *testing.T) {
	r := newRig(t, Service{ID: "app", Restart: Never})
	h := newHooks(r)
	r.s.units[0].Prepare = h.hook("prepare")
	h.fails["prepare"] = hal.ErrNoSpace
	r.run(3 * second)
	r.want("app", Waiting, "it could not be prepared: no space left on device; starting again after 1 s")
	delete(h.fails, "prepare")
	r.run(10 * second)
	r.want("app", Running, "running")
}

// TestHooksThatHang hold nothing up for ever.
func TestHooksThatHang(t *testing.T) {
	stuck := func() hal.Job { return stuckJob{} }
	r := newRig(t, Service{ID: "a", BeforeStop: func(bool) hal.Job { return stuckJob{} }, Cleanup: stuck, StopGrace: second},
		Service{ID: "b", Prepare: stuck})
	r.run(second)
	r.want("b", Preparing, "being prepared")
	done := r.do("b", DoStop)
	r.wantAnswer(done, Finished)
	r.do("b", DoStart)
	r.want("b", Waiting, "waiting for its last preparation to end")
	r.s.Stop(never)
	r.run(2*hookWithin + 5*second)
	r.want("a", Finished, "stopped: was ended by signal 15; its clean-up does not end")
	if !r.s.Done() {
		t.Error("hooks that hang hold the stop up")
	}
}

// TestShutdownHasAnEnd: services whose graces come to more than the node has time
// for are killed at its end, all at once.
func TestShutdownHasAnEnd(t *testing.T) {
	var services []Service
	for i, id := range []string{"a", "b", "c", "d"} {
		s := Service{ID: id, StopGrace: 100 * second, Cgroup: "/services/" + id}
		if i > 0 {
			s.DependsOn = []string{services[i-1].ID}
		}
		services = append(services, s)
	}
	services[1].BeforeStop = func(bool) hal.Job { return stuckJob{} }
	r := newRig(t, services...)
	for _, s := range services {
		r.processes.AddProgram(program(s.ID), fake.Program{IgnoreTerm: true})
	}
	r.step()
	r.s.Stop(80 * second)
	r.run(79 * second)
	if n := len(r.processes.Running()); n != 4 {
		t.Errorf("%d processes are left before the end; want 4, each with its grace", n)
	}
	r.run(2 * second)
	if !r.s.Done() || len(r.processes.Running()) != 0 {
		t.Errorf("at the end %d processes are left", len(r.processes.Running()))
	}
}

// TestRuntimeKeepsItsShims: what is in the runtime's cgroup outlives its restart,
// and what is in a service's does not.
func TestRuntimeKeepsItsShims(t *testing.T) {
	r := newRig(t, Service{ID: "containerd", Cgroup: "/runtime/containerd", KillProcessOnly: true}, Service{ID: "app", Cgroup: "/services/app"})
	r.processes.AddProgram("/bin/shim", fake.Program{IgnoreTerm: true})
	r.step()
	for _, path := range []string{"/runtime/containerd", "/services/app"} {
		if _, err := r.processes.Start(hal.ProcessSpec{Argv: []string{"/bin/shim", path}, Cgroup: path}, nil); err != nil {
			t.Fatal(err)
		}
	}
	r.exit("containerd", hal.ExitStatus{Code: 1})
	r.exit("app", hal.ExitStatus{Code: 1})
	r.run(5 * second)
	var left []string
	for _, p := range r.processes.Running() {
		if p.Spec.Argv[0] == "/bin/shim" {
			left = append(left, p.Spec.Cgroup)
		}
	}
	if want := []string{"/runtime/containerd"}; !slices.Equal(left, want) {
		t.Errorf("shims are left in %v; want %v", left, want)
	}
	r.s.Stop(second * 100)
	r.run(20 * second)
	if !r.s.Done() || len(r.processes.Running()) != 1 {
		t.Errorf("Done() = %v with %d processes; want the shim alone, which SignalAll ends", r.s.Done(), len(r.processes.Running()))
	}
}

// TestStuckStart: a disk that does not answer holds one service up, and no other.
func TestStuckStart(t *testing.T) {
	r := newRig(t, Service{ID: "a"}, Service{ID: "b"})
	r.s.Jobs = r.jobs
	r.jobs.Stuck = true
	r.step()
	r.want("a", Starting, "being started")
	r.jobs.Heal()
	r.s.Stop(100 * second) // before its process is there
	r.run(5 * second)
	if !r.s.Done() || r.processes.Starts != 0 {
		t.Errorf("Done() = %v after %d starts; want none while all stop", r.s.Done(), r.processes.Starts)
	}
}
