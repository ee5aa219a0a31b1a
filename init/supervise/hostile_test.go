package supervise

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"machined/hal"
	"machined/hal/fake"
)

// TestReasonsAreFitForTheAPI: what a probe was answered became the service's
// message as it was. One byte that was no UTF-8 failed the list of all services,
// and an answer of megabytes was kept once for each of the last changes.
func TestReasonsAreFitForTheAPI(t *testing.T) {
	r := newRig(t, Service{ID: "db", Probe: tcpProbe()}, Service{ID: "app", DependsOn: []string{"db"}}, Service{ID: "lame"})
	r.s.units[2].Prepare = func() hal.Job {
		return r.s.Jobs.Start(func() error { return errors.New("damaged: \xff\n" + strings.Repeat("x", 1<<20)) })
	}
	r.run(second)
	r.prober.answers["db"] = errors.New("HTTP status 599 \xff\x1b[2J\n" + strings.Repeat("ü", 1<<20))
	r.run(60 * second)
	reasons := []string{r.status("db").Message, r.status("app").Message}
	for _, c := range slices.Concat(r.s.History("db"), r.s.History("app"), r.s.History("lame")) {
		reasons = append(reasons, c.Reason)
	}
	for _, reason := range reasons {
		if len(reason) > maxReason+4 || !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl) {
			t.Errorf("a reason of %d bytes is %.80q; want valid and printable text, of %d at most", len(reason), reason, maxReason)
		}
	}
	if want := "running, but not healthy any more: HTTP status 599 ??[2J üü"; !strings.HasPrefix(reasons[0], want) {
		t.Errorf("db is %.80q; want %q", reasons[0], want)
	}
}

// TestStartWaitsForHealth: a start returned as soon as the program was executed,
// though its probe had not said a word.
func TestStartWaitsForHealth(t *testing.T) {
	r := newRig(t, Service{ID: "db", Probe: tcpProbe(), StopGrace: second})
	r.run(second)
	for _, a := range []Action{DoRestart, DoStop, DoStart} {
		r.prober.answers["db"] = errors.New("connection refused")
		done := r.do("db", a)
		if a == DoStop {
			r.run(second)
			r.wantAnswer(done, Finished)
			continue
		}
		r.run(20 * second)
		r.want("db", Running, "running, but not healthy yet: connection refused")
		if len(r.s.pending()) != 1 {
			t.Errorf("%s returned %+v while db was not healthy", a, <-done)
			return
		}
		delete(r.prober.answers, "db")
		r.run(20 * second)
		r.wantAnswer(done, Running)
	}
}

// TestContraryCommands: who waited for a stop that another call had turned into
// a restart, or for a start that another call had taken back, waited in vain.
func TestContraryCommands(t *testing.T) {
	r := newRig(t, Service{ID: "app", StopGrace: 20 * second})
	r.processes.AddProgram("/bin/app", fake.Program{StopDelay: 5 * second})
	r.step()
	contrary := func(done <-chan answer, what string) {
		t.Helper()
		select {
		case a := <-done:
			if !errors.Is(a.err, ErrOvertaken) {
				t.Errorf("%s = %v; want %v", what, a.err, ErrOvertaken)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s has not returned", what)
		}
	}
	stop := r.do("app", DoStop)
	r.run(second)
	start := r.do("app", DoStart)
	contrary(stop, "a stop")
	again := r.do("app", DoStop)
	contrary(start, "a start")
	restart := r.do("app", DoRestart)
	contrary(again, "the second stop")
	r.run(10 * second)
	r.wantAnswer(restart, Running)
	r.want("app", Running, "running")
}

// TestUpdateKeepsTheOrderOfStops: a dependency that an update took out of the
// config was stopped before those that needed it, since it had moved behind them.
func TestUpdateKeepsTheOrderOfStops(t *testing.T) {
	db := Service{ID: "db", Command: []string{"/bin/db"}}
	mid := Service{ID: "mid", Command: []string{"/bin/mid"}, DependsOn: []string{"db"}}
	app := Service{ID: "app", Command: []string{"/bin/app"}, DependsOn: []string{"mid"}}
	r := newRig(t, db, mid, app)
	r.processes.AddProgram("/bin/app", fake.Program{StopDelay: 3 * second})
	r.s.Update([]Service{db, mid, app})
	r.run(10 * second)
	app.DependsOn, app.StopGrace = nil, 10*second
	r.s.units[2].StopGrace = 10 * second
	r.s.Update([]Service{app})
	r.run(2 * second)
	for _, id := range []string{"db", "mid"} {
		if p := r.find(id); p == nil || len(p.Signals) != 0 {
			t.Errorf("%s was asked to end before app had", id)
		}
	}
	r.run(2 * second)
	if r.find("db") != nil || r.find("mid") != nil || r.s.Has("db") {
		t.Error("what is not in the config any more has not ended")
	}
	r.run(10 * second)
	r.want("app", Running, "running")
}

// TestStopDuringStart: it has no process, and that is not how its last one ended.
func TestStopDuringStart(t *testing.T) {
	r := newRig(t, Service{ID: "app", Restart: Always})
	r.run(second)
	r.exit("app", hal.ExitStatus{Code: 7})
	r.s.Jobs = r.jobs // which take until the next step
	r.processes.Step()
	r.clock.Advance(2 * second)
	r.s.Step(r.clock.SinceBoot())
	r.clock.Advance(2 * second)
	r.s.Step(r.clock.SinceBoot())
	if s := r.status("app"); s.State != Starting {
		t.Fatalf("app is %s, %s; want it to be started", s.State, s.Message)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _, _ = r.s.Do(ctx, "app", DoStop) }()
	for len(r.s.pending()) == 0 {
		time.Sleep(time.Millisecond)
	}
	r.s.Step(r.clock.SinceBoot())
	r.run(5 * second)
	if s := r.status("app"); s.State != Finished || s.LastExit != "exited with code 7" || r.find("app") != nil {
		t.Errorf("app is %s, its last exit %q; want it stopped, and code 7", s.State, s.LastExit)
	}
}

// TestManyCallers has many calls of the API contradict each other, give up and
// ask for what they are told, while services crash: all return, and none is kept.
func TestManyCallers(t *testing.T) {
	r := newRig(t, Service{ID: "db", StopGrace: second}, Service{ID: "app", DependsOn: []string{"db"}, StopGrace: second}, Service{ID: "bad"})
	r.processes.AddProgram("/bin/bad", fake.Program{Lifetime: second / 10, Code: 1})
	r.processes.AddProgram("/bin/app", fake.Program{IgnoreTerm: true})
	var callers sync.WaitGroup
	for i := range 20 {
		callers.Go(func() {
			for n := range 50 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(n%4)*time.Millisecond)
				id := []string{"db", "app", "bad", "nobody"}[(i+n)%4]
				result, err := r.s.Do(ctx, id, Action((i*7+n)%3))
				cancel()
				if id == "nobody" && err == nil || err == nil && result.Status.ID != id {
					t.Errorf("a call for %s = %+v, %v", id, result, err)
				}
				_ = r.s.History(id)
			}
		})
	}
	done := make(chan struct{})
	go func() { callers.Wait(); close(done) }()
	for returned := false; !returned; {
		select {
		case <-done:
			returned = true
		default:
			r.clock.Advance(second / 20)
			r.step()
			_ = r.s.Status()
		}
	}
	if n := len(r.s.pending()); n != 0 {
		t.Errorf("%d commands are kept that nobody waits for", n)
	}
	r.s.Stop(r.clock.SinceBoot() + 10*second)
	r.run(20 * second)
	if !r.s.Done() {
		t.Error("not all services have ended")
	}
}
