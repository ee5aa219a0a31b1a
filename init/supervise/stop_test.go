package supervise

import (
	"slices"
	"testing"

	"machined/hal"
	"machined/hal/fake"
)

func TestStopOrder(t *testing.T) {
	r := newRig(t, Service{ID: "db", StopGrace: 5 * second}, Service{ID: "app", DependsOn: []string{"db"}, StopGrace: 10 * second})
	r.processes.AddProgram("/bin/app", fake.Program{StopDelay: 3 * second})
	r.step()
	r.s.Stop(never)
	if next := r.step(); next != 10*second {
		t.Errorf("Step = %d; want the end of app's grace at %d", next, 10*second)
	}
	r.want("app", Stopping, "asked to end")
	r.want("db", Running, "running")
	r.run(3*second - 1)
	if got := r.find("db").Signals; len(got) != 0 {
		t.Errorf("db got the signals %v while app was there; want none", got)
	}
	r.run(2)
	r.want("app", Finished, "stopped: was ended by signal 15")
	if r.s.Done() != (r.find("db") == nil) {
		t.Errorf("Done() = %v with db %v", r.s.Done(), r.find("db"))
	}
	r.run(second)
	r.want("db", Finished, "stopped: was ended by signal 15")
	if !r.s.Done() {
		t.Error("Done() = false after all have ended; want true")
	}
	r.run(100 * second)
	if r.processes.Starts != 2 {
		t.Errorf("%d starts; want 2, since nothing starts after Stop", r.processes.Starts)
	}
}

// TestGraceExpires checks that a service which had to be killed says so.
func TestGraceExpires(t *testing.T) {
	r := newRig(t, Service{ID: "db", StopGrace: 5 * second}, Service{ID: "app", DependsOn: []string{"db"}, StopGrace: 10 * second})
	r.processes.AddProgram("/bin/app", fake.Program{IgnoreTerm: true})
	r.step()
	p := r.find("app")
	r.s.Stop(never)
	r.run(10*second - 1)
	r.want("app", Stopping, "asked to end")
	r.clock.Advance(1)
	r.s.Step(r.clock.SinceBoot())
	r.want("app", Stopping, "being killed: its grace has expired")
	if want := []int{15, 9}; !slices.Equal(p.Signals, want) {
		t.Errorf("app got the signals %v; want %v", p.Signals, want)
	}
	r.run(second)
	r.want("app", Failed, "killed: it did not end within its grace of 10 s")
	r.want("db", Finished, "stopped: was ended by signal 15")
	if !r.s.Done() {
		t.Error("Done() = false; want true")
	}
}

func TestNoGrace(t *testing.T) {
	r := newRig(t, Service{ID: "app"})
	r.processes.AddProgram("/bin/app", fake.Program{IgnoreTerm: true})
	r.step()
	r.s.Stop(never)
	r.run(1)
	if !r.s.Done() {
		t.Error("Done() = false for a service without grace; want it killed at once")
	}
}

// TestUnkillable covers a process in an uninterruptible sleep: nobody spins,
// and the caller can see that it is not done.
func TestUnkillable(t *testing.T) {
	r := newRig(t, Service{ID: "app", StopGrace: second})
	r.processes.AddProgram("/bin/app", fake.Program{Unkillable: true})
	r.step()
	r.s.Stop(never)
	r.run(2 * second)
	if next := r.step(); next != never || r.s.Done() {
		t.Errorf("Step = %d, Done() = %v; want never, false", next, r.s.Done())
	}
}

// TestStopLooksPastTheDead tells of a chain whose middle has ended: app still
// writes to db while it shuts down, and with proxy gone nothing seemed to need
// db any more, so that it was stopped first.
func TestStopLooksPastTheDead(t *testing.T) {
	r := newRig(t, Service{ID: "db", StopGrace: second}, Service{ID: "proxy", DependsOn: []string{"db"}, Restart: Never},
		Service{ID: "app", DependsOn: []string{"proxy"}, StopGrace: 10 * second})
	r.processes.AddProgram("/bin/app", fake.Program{StopDelay: 5 * second})
	r.step()
	r.exit("proxy", hal.ExitStatus{})
	r.step()
	r.s.Stop(never)
	r.run(4 * second)
	r.want("db", Running, "running")
	r.run(2 * second)
	r.want("db", Finished, "stopped: was ended by signal 15")
}

// TestEndsWhileWaitingToStop covers a dependency that ends by itself while it
// is held up by its dependent: it must not be started again.
func TestEndsWhileWaitingToStop(t *testing.T) {
	r := newRig(t, Service{ID: "db"}, Service{ID: "app", DependsOn: []string{"db"}, StopGrace: 10 * second})
	r.processes.AddProgram("/bin/app", fake.Program{StopDelay: 5 * second})
	r.step()
	r.s.Stop(never)
	r.step()
	r.exit("db", hal.ExitStatus{Code: 1})
	r.run(20 * second)
	r.want("db", Finished, "stopped while it was not running")
	if !r.s.Done() || r.processes.Starts != 2 {
		t.Errorf("Done() = %v after %d starts; want true, 2", r.s.Done(), r.processes.Starts)
	}
}

// TestGroupGone covers the moment between a process's end and the arrival of
// its status: the signal finds nobody, and the status settles it.
func TestGroupGone(t *testing.T) {
	r := newRig(t, Service{ID: "app", StopGrace: second})
	r.step()
	r.s.Stop(never)
	r.processes.Fail("Signal", 1, hal.ErrNotFound)
	r.step()
	r.want("app", Stopping, "asked to end (not found)")
	r.exit("app", hal.ExitStatus{Code: 0})
	r.step()
	r.want("app", Finished, "stopped: exited with code 0")
	if !r.s.Done() {
		t.Error("Done() = false; want true")
	}
}

// TestStrayExits hands the supervisor statuses that are not, or no longer, of
// its processes.
func TestStrayExits(t *testing.T) {
	r := newRig(t, Service{ID: "once", Restart: Never}, Service{ID: "app"}, Service{ID: "late", DependsOn: []string{"absent"}})
	r.step()
	old := r.s.units[1].run
	r.exit("app", hal.ExitStatus{Code: 1})
	r.exit("once", hal.ExitStatus{})
	r.step()
	r.run(5 * second)
	pid := r.find("app").PID
	for range 2 {
		r.s.exited(old, hal.ExitStatus{PID: old.pid, Code: 1})
		r.s.exited(&attempt{}, hal.ExitStatus{PID: 4711, Signal: 9})
		r.step()
	}
	r.run(5 * second)
	if p := r.find("app"); p == nil || p.PID != pid || r.processes.Starts != 3 {
		t.Errorf("app has the process %+v after %d starts; want %d, 3", p, r.processes.Starts, pid)
	}
	r.want("app", Running, "running")
	r.want("once", Finished, "exited with code 0")
	r.want("late", Skipped, "waiting for absent, which this node does not run")

	// One that ends, and whose status comes twice at once.
	e, run := hal.ExitStatus{PID: pid, Code: 7}, r.s.units[1].run
	r.exit("app", e)
	r.s.exited(run, e)
	r.step()
	r.want("app", Waiting, "exited with code 7; starting again after 2 s")
}

// TestExitBeforeStartReturns covers a process that is so quick that its status
// arrives while Start has not told its number yet.
func TestExitBeforeStartReturns(t *testing.T) {
	clock := fake.NewClock(0)
	quick := &quickProcesses{Processes: fake.NewProcesses(clock)}
	quick.AddProgram("/bin/app", fake.Program{})
	kicks := 0
	s := New(Drivers{Processes: quick, Jobs: promptJobs{fake.NewJobs(clock)}, Kick: func() { kicks++ }},
		[]Service{{ID: "app", Command: []string{"/bin/app"}, Restart: Never}})
	s.Step(0)
	if kicks != 1 {
		t.Errorf("%d kicks; want 1, or the loop would sleep on", kicks)
	}
	s.Step(0)
	if got := s.Status()[0]; got.State != Failed || got.Message != "exited with code 5" {
		t.Errorf("status %+v; want Failed, exited with code 5", got)
	}
}

type quickProcesses struct{ *fake.Processes }

func (q *quickProcesses) Start(spec hal.ProcessSpec, exited func(hal.ExitStatus)) (int, error) {
	pid, err := q.Processes.Start(spec, exited)
	q.Exit(pid, hal.ExitStatus{Code: 5})
	return pid, err
}
