package supervise

import (
	"fmt"
	"slices"
	"testing"

	"machined/hal"
	"machined/hal/fake"
)

func TestStartOrder(t *testing.T) {
	r := newRig(t, Service{ID: "log"}, Service{ID: "db", DependsOn: []string{"log"}}, Service{ID: "app", DependsOn: []string{"log", "db"}})
	r.want("log", Waiting, "not started yet")
	if next := r.step(); next != never {
		t.Errorf("Step = %d with all services running; want never", next)
	}
	var order []string
	for _, p := range r.processes.Running() {
		order = append(order, p.Spec.Argv[0])
	}
	if want := []string{"/bin/log", "/bin/db", "/bin/app"}; !slices.Equal(order, want) {
		t.Errorf("started %v; want %v", order, want)
	}
	r.want("app", Running, "running")
}

func TestSpecReachesProcess(t *testing.T) {
	clock := fake.NewClock(0)
	p := fake.NewProcesses(clock)
	p.AddProgram("/bin/app", fake.Program{})
	c := fake.NewCgroups(p)
	limits := hal.CgroupLimits{MemoryMax: 9 << 20, PIDsMax: 5}
	s := New(Drivers{Processes: p, Jobs: promptJobs{fake.NewJobs(clock)}, Cgroups: c, Output: func(id string) (int, int) { return len(id), 4 }}, []Service{{
		ID: "app", Command: []string{"/bin/app", "-v"}, Env: []string{"A=1"}, Dir: "/tmp", UID: 7, GID: 8,
		Cgroup: "/services/app", Limits: limits, NoNewPrivs: true, Bounded: true, Capabilities: 1 << 10, OOMScoreAdj: 100,
	}})
	s.Step(0)
	if g := c.Find("/services/app"); g == nil || g.Limits != limits {
		t.Errorf("the cgroup is %+v; want the limits %+v", g, limits)
	}
	got := fmt.Sprint(p.Running()[0].Spec)
	want := fmt.Sprint(hal.ProcessSpec{Argv: []string{"/bin/app", "-v"}, Env: []string{"A=1"}, Dir: "/tmp", UID: 7, GID: 8, Stdout: 3, Stderr: 4,
		Cgroup: "/services/app", NoNewPrivs: true, Bounded: true, Capabilities: 1 << 10, OOMScoreAdj: 100})
	if got != want {
		t.Errorf("started %s; want %s", got, want)
	}
}

func TestWaitsForDependency(t *testing.T) {
	r := newRig(t, Service{ID: "db"}, Service{ID: "app", DependsOn: []string{"db"}})
	r.processes.RemoveProgram("/bin/db")
	r.run(2 * second)
	r.want("db", Waiting, "no such file or directory; starting again after 2 s")
	r.want("app", Waiting, "waiting for db")
	r.processes.AddProgram("/bin/db", fake.Program{})
	r.run(2 * second)
	r.want("db", Running, "running")
	r.want("app", Running, "running")

	// A dependency that ends does not take its dependents along.
	pid := r.find("app").PID
	r.exit("db", hal.ExitStatus{Code: 1})
	r.run(5 * second)
	if p := r.find("app"); p == nil || p.PID != pid {
		t.Error("app was restarted because db was; want it left alone")
	}
}

func TestUnknownDependency(t *testing.T) {
	r := newRig(t, Service{ID: "app", DependsOn: []string{"containerd"}}, Service{ID: "other"})
	if next := r.step(); next != never {
		t.Errorf("Step = %d; want never, since nothing will change by itself", next)
	}
	r.want("app", Skipped, "waiting for containerd, which this node does not run")
	r.want("other", Running, "running")
	r.s.Stop(never)
	r.run(second)
	if !r.s.Done() {
		t.Error("not Done with a service that cannot run")
	}
}

func TestRestartPolicies(t *testing.T) {
	ok, code, signal := hal.ExitStatus{}, hal.ExitStatus{Code: 3}, hal.ExitStatus{Signal: 11}
	const again = "; starting again after 1 s"
	for _, c := range []struct {
		policy  Restart
		exit    hal.ExitStatus
		state   State
		message string
	}{
		{Always, ok, Waiting, "exited with code 0" + again},
		{Always, code, Waiting, "exited with code 3" + again},
		{Always, signal, Waiting, "was ended by signal 11" + again},
		{OnFailure, ok, Finished, "exited with code 0"},
		{OnFailure, code, Waiting, "exited with code 3" + again},
		{OnFailure, signal, Waiting, "was ended by signal 11" + again},
		{Never, ok, Finished, "exited with code 0"},
		{Never, code, Failed, "exited with code 3"},
		{Never, signal, Failed, "was ended by signal 11"},
	} {
		r := newRig(t, Service{ID: "app", Restart: c.policy})
		r.step()
		r.exit("app", c.exit)
		if n := r.kicks.Load(); n != 1 {
			t.Errorf("%d kicks after an exit; want 1", n)
		}
		r.step()
		r.want("app", c.state, c.message)
		r.run(10 * second)
		wantStarts := 1
		if c.state == Waiting {
			wantStarts = 2
			r.want("app", Running, "running")
		}
		if r.processes.Starts != wantStarts {
			t.Errorf("policy %d, exit %+v: %d starts; want %d", c.policy, c.exit, r.processes.Starts, wantStarts)
		}
	}
}

// TestBackoff follows a service that never gets up, and one that recovered.
func TestBackoff(t *testing.T) {
	r := newRig(t, Service{ID: "app"})
	r.processes.AddProgram("/bin/app", fake.Program{Lifetime: 1, Code: 1})
	for i, want := range []int64{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		r.step()
		r.clock.Advance(1)
		next := r.step() // takes the exit in
		if got := next - r.clock.SinceBoot(); got < want*second || got > want*second*9/8 {
			t.Errorf("pause %d is %d ns; want %d s, and at most an eighth more", i+1, got, want)
		}
		r.clock.Advance(next - r.clock.SinceBoot())
	}
	for _, c := range []struct {
		lifetime int64
		want     int64
	}{{stableAfter - 1, 60}, {stableAfter, 1}, {1, 2}, {1, 4}} {
		r.processes.AddProgram("/bin/app", fake.Program{Lifetime: c.lifetime, Code: 1})
		r.step()
		r.clock.Advance(c.lifetime)
		next := r.step()
		if got := next - r.clock.SinceBoot(); got < c.want*second || got > c.want*second*9/8 {
			t.Errorf("the pause after %d ns of running is %d ns; want %d s", c.lifetime, got, c.want)
		}
		r.clock.Advance(next - r.clock.SinceBoot())
	}
}

// TestExecFailure tells of a service that was shown as running while its
// program was not even there.
func TestExecFailure(t *testing.T) {
	for _, c := range []struct {
		policy  Restart
		state   State
		message string
	}{
		{Always, Waiting, "no such file or directory; starting again after 1 s"},
		{OnFailure, Waiting, "no such file or directory; starting again after 1 s"},
		{Never, Failed, "no such file or directory"},
	} {
		r := newRig(t, Service{ID: "app", Restart: c.policy}, Service{ID: "ui", DependsOn: []string{"app"}})
		r.processes.RemoveProgram("/bin/app")
		r.step()
		r.want("app", c.state, c.message)
		if c.policy == Never {
			r.want("ui", Skipped, "waiting for app, which has failed for good")
		} else {
			r.want("ui", Waiting, "waiting for app")
		}
		for range 200 {
			if s := r.status("app").State; s == Running {
				t.Fatalf("app is shown as %s without a program", s)
			}
			r.run(second)
		}
	}
}

func TestHundredServices(t *testing.T) {
	var services []Service
	for i := range 100 {
		s := Service{ID: fmt.Sprintf("s%02d", i), StopGrace: 10 * second}
		for d := max(0, i-3); d < i; d++ {
			s.DependsOn = append(s.DependsOn, fmt.Sprintf("s%02d", d))
		}
		services = append(services, s)
	}
	r := newRig(t, services...)
	r.step()
	if n := len(r.processes.Running()); n != 100 {
		t.Fatalf("%d services run after one step; want 100", n)
	}
	r.s.Stop(never)
	for i := 99; i >= 0; i-- {
		if r.s.Done() {
			t.Fatalf("Done with %d processes left", i+1)
		}
		r.step()
		if n := len(r.processes.Running()); n != i+1 {
			t.Fatalf("%d processes are left after %d steps; want one less a step", n, 99-i)
		}
	}
	r.step()
	if !r.s.Done() {
		t.Error("not Done after all have ended")
	}
}
