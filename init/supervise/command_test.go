package supervise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"machined/hal"
	"machined/hal/fake"
)

// answer is what Do returned.
type answer struct {
	Result
	err error
}

// do has a command carried out, from another goroutine as the API does, and
// returns when the loop has taken it up.
func (r *rig) do(id string, a Action) <-chan answer {
	done := make(chan answer, 1)
	ctx, cancel := context.WithCancel(context.Background())
	r.t.Cleanup(cancel)
	before := len(r.s.pending())
	go func() {
		result, err := r.s.Do(ctx, id, a)
		done <- answer{result, err}
	}()
	for len(r.s.pending()) == before {
		time.Sleep(time.Millisecond)
	}
	r.step()
	return done
}

func (r *rig) wantAnswer(done <-chan answer, state State, also ...string) {
	r.t.Helper()
	select {
	case a := <-done:
		if a.err != nil || a.Status.State != state || !slices.Equal(a.Also, also) {
			r.t.Errorf("Do = %+v; want %s and also %v", a, state, also)
		}
	case <-time.After(10 * time.Second):
		r.t.Error("Do has not returned")
	}
}

func TestStopTakesDependentsAlong(t *testing.T) {
	r := newRig(t, Service{ID: "db", StopGrace: 20 * second}, Service{ID: "app", DependsOn: []string{"db"}, StopGrace: 20 * second}, Service{ID: "other"})
	r.processes.AddProgram("/bin/app", fake.Program{StopDelay: 5 * second})
	r.step()
	done := r.do("db", DoStop)
	r.run(4 * second)
	if r.find("db") == nil || len(r.find("db").Signals) != 0 {
		t.Error("db was asked to end before app had")
	}
	r.run(2 * second)
	r.wantAnswer(done, Finished, "app")
	r.want("app", Finished, "stopped: was ended by signal 15")
	r.run(200 * second)
	r.want("db", Finished, "stopped: was ended by signal 15") // by hand is for good
	r.want("other", Running, "running")
	// What is started by hand starts nothing else, and waits.
	done = r.do("app", DoStart)
	r.want("app", Waiting, "waiting for db, which was stopped by hand")
	r.wantAnswer(r.do("db", DoStart), Running)
	r.wantAnswer(done, Running)
}

func TestRestartBringsDependentsBack(t *testing.T) {
	r := newRig(t, Service{ID: "db"}, Service{ID: "app", DependsOn: []string{"db"}})
	r.step()
	pids := []int{r.find("db").PID, r.find("app").PID}
	done := r.do("db", DoRestart)
	r.run(5 * second)
	r.wantAnswer(done, Running, "app")
	if r.find("db").PID == pids[0] || r.find("app").PID == pids[1] {
		t.Error("one of them was not restarted")
	}
	r.want("app", Running, "running")
}

func TestCommandsThatCannotBe(t *testing.T) {
	r := newRig(t, Service{ID: "app"}, Service{ID: "lame", DependsOn: []string{"absent"}}, Service{ID: "bad", Restart: Never})
	r.processes.RemoveProgram("/bin/bad")
	r.step()
	if a := <-r.do("nobody", DoStart); !errors.Is(a.err, ErrUnknown) {
		t.Errorf("start of nobody = %v; want %v", a.err, ErrUnknown)
	}
	if a := <-r.do("lame", DoStart); !errors.Is(a.err, ErrEnded) || !strings.Contains(a.err.Error(), "absent") {
		t.Errorf("start of one that is skipped = %v; want the reason", a.err)
	}
	if a := <-r.do("bad", DoStart); !errors.Is(a.err, ErrEnded) {
		t.Errorf("start of one that fails = %v; want %v", a.err, ErrEnded)
	}
	r.processes.AddProgram("/bin/app", fake.Program{IgnoreTerm: true})
	r.exit("app", hal.ExitStatus{Code: 1})
	r.run(2 * second)
	r.s.units[0].StopGrace = 1000 * second
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { _, err := r.s.Do(ctx, "app", DoStop); done <- err }()
	for len(r.s.pending()) == 0 {
		time.Sleep(time.Millisecond)
	}
	r.step()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "it is Stopping so far: asked to end: by hand") {
		t.Errorf("a stop that takes too long = %v; want how far it is", err)
	}
	if n := len(r.s.pending()); n != 0 {
		t.Errorf("%d commands are pending that nobody waits for", n)
	}
	r.s.Stop(never)
	if _, err := r.s.Do(context.Background(), "app", DoStart); !errors.Is(err, ErrGoingDown) {
		t.Errorf("a start while all stop = %v; want %v", err, ErrGoingDown)
	}
}

// TestShutdownAnswersCommands: nobody waits for a start that will not be.
func TestShutdownAnswersCommands(t *testing.T) {
	r := newRig(t, Service{ID: "app", Gates: []Gate{GateTime}})
	r.conds.gates[GateTime] = ": unsynced"
	done := r.do("app", DoStart)
	r.s.Stop(never)
	r.step()
	if a := <-done; !errors.Is(a.err, ErrGoingDown) {
		t.Errorf("Do = %v; want %v", a.err, ErrGoingDown)
	}
}

func TestUpdate(t *testing.T) {
	same := Service{ID: "same", Command: []string{"/bin/same"}}
	changed := Service{ID: "changed", Command: []string{"/bin/changed"}, DependsOn: []string{"same"}}
	gone := Service{ID: "gone", Command: []string{"/bin/gone"}, Cgroup: "/services/gone"}
	r := newRig(t, same, changed, gone)
	r.step()
	pid := r.find("same").PID
	r.processes.AddProgram("/bin/new", fake.Program{})
	changed.Env = []string{"A=1"}
	r.s.Update([]Service{same, {ID: "new", Command: []string{"/bin/new"}}, changed})
	r.run(2 * second)
	if p := r.find("same"); p == nil || p.PID != pid || len(p.Signals) != 0 {
		t.Error("a service that is the same was touched")
	}
	if p := r.find("changed"); p == nil || !slices.Equal(p.Spec.Env, []string{"A=1"}) {
		t.Errorf("the changed service runs as %+v; want its new environment", p)
	}
	if r.find("new") == nil || r.find("gone") != nil || r.s.Has("gone") || r.cgroups.Find("/services/gone") != nil {
		t.Error("want the new service to run, and the one that is gone forgotten with its cgroup")
	}
	// One that comes back while it is on its way out is started again.
	r.processes.AddProgram("/bin/new", fake.Program{StopDelay: 3 * second})
	r.s.Update([]Service{same, changed})
	r.step()
	r.s.Update([]Service{same, {ID: "new", Command: []string{"/bin/new"}}, changed})
	r.run(30 * second)
	r.want("new", Running, "running")
}

func TestHistoryIsBounded(t *testing.T) {
	r := newRig(t, Service{ID: "app"})
	r.processes.AddProgram("/bin/app", fake.Program{Lifetime: 1, Code: 1})
	r.run(3600 * second)
	h := r.s.History("app")
	if len(h) != keptChanges {
		t.Errorf("%d changes are kept; want %d", len(h), keptChanges)
	}
	if !slices.IsSortedFunc(h, func(a, b Change) int { return int(a.At - b.At) }) {
		t.Error("the changes are not in their order")
	}
	if last := h[len(h)-1]; last.State != r.status("app").State || last.Reason != r.status("app").Message {
		t.Errorf("the last change is %+v; want the present state", last)
	}
	states := fmt.Sprint(h[0].State, h[1].State, h[2].State, h[3].State)
	if !strings.Contains("Waiting Starting Running Waiting Starting Running Waiting", states) {
		t.Errorf("the states are %s; want a start after each pause", states)
	}
	if r.s.History("nobody") != nil {
		t.Error("History of nobody is not nil")
	}
}

func TestIdleStepAllocatesNothing(t *testing.T) {
	r := newRig(t, Service{ID: "db", Probe: tcpProbe()}, Service{ID: "app", DependsOn: []string{"db"}, Cgroup: "/services/app"},
		Service{ID: "lame", DependsOn: []string{"absent"}}, Service{ID: "late", Gates: []Gate{GateTime}})
	r.conds.gates[GateTime] = ": unsynced"
	r.run(5 * second)
	now, version := r.clock.SinceBoot(), r.s.Version()
	if n := testing.AllocsPerRun(100, func() { r.s.Step(now) }); n != 0 {
		t.Errorf("an idle step allocates %v times; want 0", n)
	}
	if r.s.Version() != version {
		t.Error("idle steps have moved the version")
	}
}
