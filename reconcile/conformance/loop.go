package conformance

import (
	"strconv"
	"time"

	"machined/hal"
	"machined/reconcile"
	"machined/reconcile/resource"
)

func loopCases() []Case {
	return []Case{
		{"loop: runs when an input moves", loopInput},
		{"loop: runs when its time has come", loopInterval},
		{"loop: runs when something outside moves", loopExternal},
		{"loop: a failure is retried, later each time", loopBackoff},
		{"loop: a failure is reported, and the rest goes on", loopIsolated},
		{"loop: failures count in a row where good runs start jobs between", loopJob},
		{"loop: the same seed gives the same times", loopSeed},
		{"loop: who asks for the past keeps nobody awake", loopPast},
		{"loop: a storm from outside is slowed down, and no fight", loopStorm},
		{"loop: controllers that fight are held off and named", loopFight},
		{"transform: maps, follows and clears away", transformFollows},
		{"transform: two inputs for one output are an error", transformTwice},
	}
}

// scripted is a controller that does what a case says.
type scripted struct {
	spec reconcile.Spec
	runs int
	run  func(*reconcile.Run) error
}

func (c *scripted) Spec() reconcile.Spec { return c.spec }

func (c *scripted) Reconcile(r *reconcile.Run) error {
	c.runs++
	if c.run == nil {
		return nil
	}
	return c.run(r)
}

func newLoop(t T, controllers ...reconcile.Controller) (*reconcile.Loop, *reconcile.Store) {
	s := reconcile.NewStore(nil)
	l, err := reconcile.NewLoop(s, 7)
	expect(t, "NewLoop", err, nil)
	for _, c := range controllers {
		expect(t, "Add", l.Add(c), nil)
	}
	return l, s
}

func runs(t T, what string, c *scripted, want int) {
	sameText(t, "runs "+what, strconv.Itoa(c.runs), strconv.Itoa(want))
}

func status(s *reconcile.Store, name string) resource.ControllerStatus {
	status, _, _ := s.Controllers.Get(resource.Named(name))
	return status
}

func loopInput(t T) {
	c := &scripted{spec: reconcile.Spec{Name: "reader", Inputs: []resource.Kind{resource.LinkStatusKind}}}
	l, s := newLoop(t, c)
	by, _ := s.Register("writer", reconcile.Output{Kind: resource.LinkStatusKind})
	l.Pass(time.Second)
	runs(t, "at the start", c, 1)
	l.Pass(time.Hour)
	runs(t, "with nothing new", c, 1)
	expect(t, "Put", s.Links.Put(by, link("eth0", 1500)), nil)
	next := l.Pass(time.Hour)
	runs(t, "after a change", c, 2)
	check(t, next > 1000*time.Hour, "no run is planned")
	check(t, status(s, "reader").Runs == 2 && status(s, "reader").NextRunNS < 0, "ControllerStatus tells")
}

func loopInterval(t T) {
	c := &scripted{spec: reconcile.Spec{Name: "poller", Interval: 10 * time.Second}}
	l, _ := newLoop(t, c)
	next := l.Pass(time.Second)
	check(t, next == 11*time.Second, "the next run is an interval away")
	l.Pass(next - 1)
	runs(t, "before the time", c, 1)
	l.Pass(next)
	runs(t, "at the time", c, 2)
	c.run = func(r *reconcile.Run) error { r.WakeIn(time.Second); r.WakeIn(time.Minute); return nil }
	check(t, l.Pass(time.Minute) == time.Minute+time.Second, "the earliest wish counts")
}

func loopExternal(t T) {
	count := uint64(0)
	c := &scripted{spec: reconcile.Spec{Name: "listener", External: []func() uint64{func() uint64 { return count }}}}
	l, _ := newLoop(t, c)
	l.Pass(time.Second)
	l.Pass(2 * time.Second)
	runs(t, "with nothing new", c, 1)
	count = 5
	l.Pass(2 * time.Second)
	runs(t, "after a change", c, 2)
}

func loopBackoff(t T) {
	c := &scripted{spec: reconcile.Spec{Name: "failing"}, run: func(*reconcile.Run) error { return hal.ErrNoDevice }}
	l, s := newLoop(t, c)
	now := time.Second
	for i := range 12 {
		next := l.Pass(now)
		least := min(reconcile.BackoffMin<<i, reconcile.BackoffMax)
		wait := next - now
		check(t, wait >= least && wait <= min(least*5/4, reconcile.BackoffMax), "pause "+strconv.Itoa(i)+" is "+least.String()+" or a little more, not "+wait.String())
		now = next
	}
	sameText(t, "last error", status(s, "failing").LastError, "no such device")
	check(t, status(s, "failing").Failures == 12, "failures are counted")
	c.run = nil
	l.Pass(now)
	sameText(t, "last error after a good run", status(s, "failing").LastError, "")
	c.run = func(*reconcile.Run) error { return hal.ErrNoDevice }
	check(t, l.Pass(now+time.Hour) > now+time.Hour, "without a reason it does not run again")
}

func loopIsolated(t T) {
	bad := &scripted{spec: reconcile.Spec{Name: "bad", Interval: time.Second}, run: func(*reconcile.Run) error { return hal.ErrInvalid }}
	good := &scripted{spec: reconcile.Spec{Name: "good", Interval: time.Second}}
	l, _ := newLoop(t, bad, good)
	for now := time.Second; now < 10*time.Second; now += time.Second {
		l.Pass(now)
	}
	runs(t, "of the good one", good, 9)
}

// loopJob: a mount that fails was tried every second for ever, since the run
// that started it was a good one.
func loopJob(t T) {
	started := false
	c := &scripted{spec: reconcile.Spec{Name: "mounting"}}
	c.run = func(r *reconcile.Run) error {
		started = !started
		if started {
			r.WakeIn(100 * time.Millisecond) // when the job has ended
			return nil
		}
		return hal.ErrNoDevice
	}
	l, _ := newLoop(t, c)
	now := time.Second
	for now < 10*time.Minute {
		now = l.Pass(now)
	}
	check(t, c.runs < 2*20, "there are fewer than 20 tries in 10 minutes, not "+strconv.Itoa(c.runs/2))
}

func loopPast(t T) {
	c := &scripted{spec: reconcile.Spec{Name: "late"}, run: func(r *reconcile.Run) error { r.WakeAt(r.Now - time.Hour); return nil }}
	l, _ := newLoop(t, c)
	for now := time.Second; now < 2*time.Second && c.runs < 1000; {
		next := l.Pass(now)
		check(t, next > now, "a pass ends with a time to come")
		now = max(next, now+1)
	}
	check(t, c.runs <= 100, "it runs 100 times a second at most, not "+strconv.Itoa(c.runs))
	c.run = func(r *reconcile.Run) error { r.WakeIn(1<<63 - 1); return nil }
	check(t, l.Pass(time.Hour) > 1000*time.Hour, "a time that does not come is none that has passed")
}

// loopStorm: packets that came faster than any client's were taken for a fight,
// and the lease of a link rested for a minute.
func loopStorm(t T) {
	packets := uint64(0)
	c := &scripted{spec: reconcile.Spec{Name: "dhcp", External: []func() uint64{func() uint64 { return packets }}}}
	l, s := newLoop(t, c)
	for now := time.Second; now < 11*time.Second; now += time.Millisecond {
		packets++
		before := c.runs
		if next := l.Pass(now); c.runs == before && (next <= now || next > now+time.Second) {
			t.Fail("at " + now.String() + " what is put off is due at " + next.String())
			return
		}
	}
	check(t, c.runs >= 10*50 && c.runs <= 11*65, "it runs some 64 times a second, not "+strconv.Itoa(c.runs/10))
	sameText(t, "last error", status(s, "dhcp").LastError, "")
	before := c.runs
	l.Pass(13 * time.Second)
	check(t, c.runs == before+1, "the last packet is not forgotten")
}

func loopSeed(t T) {
	times := func(seed uint64) string {
		s := reconcile.NewStore(nil)
		l, _ := reconcile.NewLoop(s, seed)
		expect(t, "Add", l.Add(&scripted{spec: reconcile.Spec{Name: "failing"}, run: func(*reconcile.Run) error { return hal.ErrNoDevice }}), nil)
		text, now := "", time.Second
		for range 6 {
			now = l.Pass(now)
			text += now.String() + " "
		}
		return text
	}
	sameText(t, "the times of seed 3", times(3), times(3))
	check(t, times(3) != times(4), "another seed gives other times")
}

func loopFight(t T) {
	// Each wants another MTU for the same address's link.
	fighter := func(name string, in, out resource.Kind, write func(*reconcile.Run) error) *scripted {
		return &scripted{spec: reconcile.Spec{Name: name, Inputs: []resource.Kind{in}, Outputs: []reconcile.Output{{Kind: out}}}, run: write}
	}
	n := uint32(0)
	one := fighter("one", resource.LinkStatusKind, resource.LinkSpecKind, func(r *reconcile.Run) error {
		n++
		return r.Store.LinkSpecs.Put(r.By, resource.LinkSpec{Name: "eth0", MTU: n})
	})
	two := fighter("two", resource.LinkSpecKind, resource.LinkStatusKind, func(r *reconcile.Run) error {
		n++
		return r.Store.Links.Put(r.By, link("eth0", n))
	})
	calm := &scripted{spec: reconcile.Spec{Name: "calm", Interval: time.Second}}
	l, s := newLoop(t, one, two, calm)
	now, passes := time.Second, 0
	for ; now < 61*time.Second && passes < 2000; passes++ {
		now = max(l.Pass(now), now)
	}
	check(t, now >= 61*time.Second, "time goes on")
	check(t, one.runs+two.runs < 4000, "the fight is bounded, not "+strconv.Itoa(one.runs+two.runs)+" runs")
	check(t, calm.runs >= 60, "the rest has its turn")
	text := status(s, "one").LastError + status(s, "two").LastError
	check(t, text == "livelock: one was made to run again and again, since two keeps changing LinkStatus" ||
		text == "livelock: two was made to run again and again, since one keeps changing LinkSpec", "both are named, not: "+text)
}

// upLinks asks for each wired link to be up.
func upLinks() reconcile.Controller {
	return reconcile.Transform(reconcile.Mapping[resource.LinkStatus, resource.LinkSpec]{
		Name: "up-links",
		From: func(s *reconcile.Store) *reconcile.Table[resource.LinkStatus] { return &s.Links },
		To:   func(s *reconcile.Store) *reconcile.Table[resource.LinkSpec] { return &s.LinkSpecs },
		Map: func(in resource.LinkStatus) (resource.LinkSpec, bool) {
			return resource.LinkSpec{Name: in.Name[:4], Up: true}, in.Wired
		},
	})
}

func transformFollows(t T) {
	l, s := newLoop(t, upLinks())
	by, _ := s.Register("writer", reconcile.Output{Kind: resource.LinkStatusKind})
	wired := func(name string, yes bool) {
		expect(t, "Put", s.Links.Put(by, resource.LinkStatus{Name: name, Wired: yes}), nil)
	}
	specs := func() string {
		l.Pass(time.Second)
		text := ""
		for _, spec := range s.LinkSpecs.List(nil) {
			text += spec.Name + " "
		}
		return text
	}
	wired("eth0", true)
	wired("wlan", false)
	wired("eth1", true)
	sameText(t, "specs", specs(), "eth0 eth1 ")
	wired("eth1", false)
	sameText(t, "specs after one maps to nothing", specs(), "eth0 ")
	expect(t, "Destroy", s.Links.Destroy(by, resource.Named("eth0")), nil)
	sameText(t, "specs after the input has gone", specs(), "")
}

func transformTwice(t T) {
	l, s := newLoop(t, upLinks())
	by, _ := s.Register("writer", reconcile.Output{Kind: resource.LinkStatusKind})
	for _, name := range []string{"eth0a", "eth0b"} {
		expect(t, "Put", s.Links.Put(by, resource.LinkStatus{Name: name, Wired: true}), nil)
	}
	l.Pass(time.Second)
	sameText(t, "last error", status(s, "up-links").LastError, "transform into LinkSpec eth0: two inputs map to it")
}
