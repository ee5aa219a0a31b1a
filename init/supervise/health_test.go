package supervise

import (
	"errors"
	"strings"
	"testing"

	"machined/hal"
	"machined/hal/fake"
)

func tcpProbe() *Probe {
	return &Probe{Kind: ProbeTCP, Target: "a:1", Period: 10 * second, Timeout: 2 * second, Threshold: 3}
}

// TestDependentsWaitForHealth follows a service from its start over its first
// healthy answer to three bad ones in a row, and what its dependents are told.
func TestDependentsWaitForHealth(t *testing.T) {
	r := newRig(t, Service{ID: "db", Probe: tcpProbe()}, Service{ID: "app", DependsOn: []string{"db"}})
	r.prober.answers["db"] = errors.New("connection refused")
	r.run(4 * second)
	r.want("db", Running, "running, but not healthy yet: connection refused")
	r.want("app", Waiting, "waiting for db, which is not healthy")
	// Before it is healthy it is asked more often than each period.
	if n := r.prober.asked["db"]; n < 3 {
		t.Errorf("db was asked %d times in 4 s; want more than each 10 s", n)
	}
	delete(r.prober.answers, "db")
	r.run(10 * second)
	r.want("db", Running, "running")
	r.want("app", Running, "running")
	pid := r.find("app").PID
	r.prober.answers["db"] = errors.New("connection refused")
	r.run(20 * second)
	r.want("db", Running, "running") // two failures are not three
	r.run(11 * second)
	r.want("db", Running, "running, but not healthy any more: connection refused")
	r.want("app", Running, "running; db, on which it depends, is not healthy")
	if r.find("app").PID != pid || r.status("db").Healthy || !r.status("app").Healthy {
		t.Errorf("db healthy: %v, app healthy: %v, restarted: %v; want app alone healthy, and left alone", r.status("db").Healthy, r.status("app").Healthy, r.find("app").PID != pid)
	}
	delete(r.prober.answers, "db")
	r.run(10 * second)
	r.want("app", Running, "running")
	if r.prober.most != 1 {
		t.Errorf("%d probes were under way at once; want 1", r.prober.most)
	}
}

// TestProbeThatHangs counts as a failure, and no other is started beside it.
func TestProbeThatHangs(t *testing.T) {
	r := newRig(t, Service{ID: "db", Probe: tcpProbe()})
	r.run(second)
	r.want("db", Running, "running")
	r.prober.stuck["db"] = true
	r.run(100 * second)
	r.want("db", Running, "running, but not healthy any more: the probe does not end")
	if n := r.prober.open["db"]; n != 1 {
		t.Errorf("%d probes hang; want 1", n)
	}
}

// TestAnswerOfTheDead: the answer of a probe that has asked the process before
// does not make the next one healthy.
func TestAnswerOfTheDead(t *testing.T) {
	r := newRig(t, Service{ID: "db", Probe: tcpProbe()})
	late := fake.NewJobs(r.clock)
	r.prober.jobs = late
	r.step()
	r.exit("db", hal.ExitStatus{Code: 1})
	r.run(2 * second)
	if r.find("db") == nil {
		t.Fatal("db was not started again")
	}
	late.Step()
	r.s.Step(r.clock.SinceBoot())
	if s := r.status("db"); s.Healthy {
		t.Error("db is healthy by the answer of its last process")
	}
	late.Step()
	r.step()
	r.want("db", Running, "running")
}

// TestUnhealthyIsRestarted covers a service that was healthy and one that never
// is.
func TestUnhealthyIsRestarted(t *testing.T) {
	for _, before := range []bool{true, false} {
		healthy := before
		r := newRig(t, Service{ID: "containerd", External: func() (bool, string) { return healthy, "the socket is not there" }, RestartUnhealthyAfter: 30 * second, StopGrace: second},
			Service{ID: "app"})
		r.run(20 * second)
		healthy = false
		r.run(10 * second)
		if starts := r.status("containerd").Restarts; before && starts != 0 {
			t.Errorf("restarted %d times before its time", starts)
		}
		r.run(35 * second)
		// At 30 s, or at 50 s when it was healthy until 20 s.
		s := r.status("containerd")
		if s.Restarts != 1 || s.InRow != 1 || !strings.HasPrefix(s.Message, "running, but not healthy yet: the socket") {
			t.Errorf("healthy before %v: %+v; want it restarted once", before, s)
		}
		if len(r.find("app").Signals) != 0 {
			t.Error("app was signalled")
		}
	}
}

// TestSlowStart tells of a containerd that needed 100 s of a slow card to be ready,
// and was started again after 60 s, for ever.
func TestSlowStart(t *testing.T) {
	var r *rig
	needs, hangs := 100*second, false
	r = newRig(t, Service{ID: "containerd", External: func() (bool, string) {
		up := r.s.units[0].started
		return !hangs && r.clock.SinceBoot() >= up+needs, "it is not ready"
	}, RestartUnhealthyAfter: 60 * second, StopGrace: second})
	runs := func(until int64) {
		t.Helper()
		for r.clock.SinceBoot() < until {
			r.run(second) // what is external has no event of its own
		}
	}
	runs(200 * second)
	if s := r.status("containerd"); !s.Healthy || s.Restarts != 1 {
		t.Fatalf("at 200 s it is %+v; want it healthy, since its second start", s)
	}
	// One that was ready and hangs gets its own patience, and the next start, too.
	hangs = true
	runs(200*second + 63*second)
	s := r.status("containerd")
	if s.Restarts != 2 {
		t.Errorf("63 s after it has hung it was restarted %d times; want twice", s.Restarts)
	}
	runs(200*second + 63*second + 62*second)
	if s = r.status("containerd"); s.Restarts != 3 {
		t.Errorf("62 s later it was restarted %d times; want 3 times, as the count began anew", s.Restarts)
	}
}

// TestPatience: that for a service which never comes up grows up to a bound, and is
// its own at least.
func TestPatience(t *testing.T) {
	for _, c := range []struct {
		own     int64 // in seconds
		tooSlow int
		healthy bool
		want    int64
	}{
		{60, 0, false, 60}, {60, 1, false, 120}, {60, 3, false, 480}, {60, 4, false, 600}, {60, 1 << 30, false, 600},
		{1, 1 << 30, false, 600}, {900, 5, false, 900}, {60, 3, true, 60},
	} {
		u := &unit{Service: Service{RestartUnhealthyAfter: c.own * second}, health: health{tooSlow: c.tooSlow, wasHealthy: c.healthy}}
		if got := u.patience(); got != c.want*second {
			t.Errorf("own %d s, %d starts too slow, healthy before %v: patience %d s; want %d s", c.own, c.tooSlow, c.healthy, got/second, c.want)
		}
	}
}

func TestVolumesAndGates(t *testing.T) {
	r := newRig(t, Service{ID: "app", Volumes: []string{"STATE"}, Gates: []Gate{GateTime, GateNetwork}})
	r.conds.volumes["STATE"], r.conds.gates[GateTime], r.conds.gates[GateNetwork] = ", not there", ": unsynced", ": no address"
	r.step()
	r.want("app", Waiting, "waiting for volume STATE, not there")
	r.conds.volumes["STATE"] = ""
	r.step()
	r.want("app", Waiting, "waiting for the time: unsynced")
	r.conds.gates[GateTime] = ""
	r.step()
	r.want("app", Waiting, "waiting for the network: no address")
	r.conds.gates[GateNetwork] = ""
	r.step()
	r.want("app", Running, "running")
	r.conds.gates[GateNetwork] = ": no address" // a start condition, and no more
	r.run(10 * second)
	r.want("app", Running, "running")
}

// TestOneShot: what has ended well and is not started again has done what its
// dependents wait for; what has failed for good will never have.
func TestOneShot(t *testing.T) {
	for _, policy := range []Restart{Never, OnFailure} {
		r := newRig(t, Service{ID: "setup", Restart: policy}, Service{ID: "app", DependsOn: []string{"setup"}})
		r.processes.AddProgram("/bin/setup", fake.Program{Lifetime: second})
		r.run(5 * second)
		r.want("setup", Finished, "exited with code 0")
		r.want("app", Running, "running")
	}
	r := newRig(t, Service{ID: "setup", Restart: Never}, Service{ID: "app", DependsOn: []string{"setup"}}, Service{ID: "ui", DependsOn: []string{"app"}})
	r.processes.RemoveProgram("/bin/setup")
	r.run(5 * second)
	r.want("setup", Failed, "no such file or directory")
	r.want("app", Skipped, "waiting for setup, which has failed for good")
	r.want("ui", Skipped, "waiting for app, which is skipped")
	r.processes.AddProgram("/bin/setup", fake.Program{Lifetime: second})
	r.do("setup", DoStart)
	r.run(5 * second)
	r.want("app", Running, "running")
	r.want("ui", Running, "running")
}

func TestCrashLoopIsVisible(t *testing.T) {
	r := newRig(t, Service{ID: "app"})
	r.s.Tail = func(id string) string { return id + " cannot open its port" }
	r.processes.AddProgram("/bin/app", fake.Program{Lifetime: 1, Code: 7})
	r.run(8 * second)
	s := r.status("app")
	if s.InRow < 3 || s.LastExit != "exited with code 7" || s.LastOutput != "app cannot open its port" || !strings.Contains(s.Message, "times in a row") {
		t.Errorf("status %+v; want the count, the exit and the output", s)
	}
}

// TestOOMKill: what the kernel has killed for want of memory says so.
func TestOOMKill(t *testing.T) {
	r := newRig(t, Service{ID: "app", Cgroup: "/services/app", Limits: hal.CgroupLimits{MemoryMax: 1 << 20}}, Service{ID: "bare"})
	r.step()
	r.cgroups.OOM("/services/app")
	r.exit("bare", hal.ExitStatus{Signal: 9})
	r.step()
	r.want("app", Waiting, "was killed for want of memory; starting again after 1 s")
	r.want("bare", Waiting, "was ended by signal 9, perhaps for want of memory; starting again after 1 s")
	if s := r.status("app"); s.OOMKills != 1 {
		t.Errorf("%d kills for want of memory; want 1", s.OOMKills)
	}
}

func TestLimitsThatTheKernelHasNot(t *testing.T) {
	r := newRig(t, Service{ID: "app", Cgroup: "/services/app", Limits: hal.CgroupLimits{MemoryMax: 1 << 20, PIDsMax: 4}}, Service{ID: "b", Cgroup: "/services/b"})
	r.cgroups.Missing = []string{"memory.max"}
	r.cgroups.Fail("Create", 2, hal.ErrNoSpace)
	r.step()
	r.want("app", Running, "running; not limited by memory.max")
	if p := r.find("b"); p == nil || p.Spec.Cgroup != "" {
		t.Errorf("b runs as %+v; want it without the cgroup that could not be made", p)
	}
}
