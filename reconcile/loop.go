package reconcile

import (
	"time"

	"machined/reconcile/resource"
)

const (
	// BackoffMin and BackoffMax bound the pause after a failed run.
	BackoffMin = time.Second
	BackoffMax = time.Minute

	// maxRounds is how often one pass goes over the controllers. What is not
	// settled by then goes on in the next pass, so that the rest of the node
	// has its turn.
	maxRounds = 16
	// fightRuns within fightWindow, made by changes of the store, are no work
	// but a fight with somebody who undoes it. A node that starts, or whose
	// containers do, has many changes, but not for so long.
	fightRuns   = 320
	fightWindow = 10 * time.Second
	// A peace of this length makes a fight forgotten.
	peace = 2 * BackoffMax
	// stormRuns is how often changes outside make a controller run within
	// stormWindow. The others wait: whoever floods a network with packets is
	// heard more slowly, and is no fault of the controller's.
	stormRuns   = 64
	stormWindow = time.Second
	// wakePause is the least pause before a run that a controller asks for: one
	// that asks for the past shall not keep the node from sleeping.
	wakePause = 10 * time.Millisecond
)

// LoopName is the writer of ControllerStatus.
const LoopName = "loop"

// Loop runs controllers over a store, one at a time and in the order of their
// registration.
type Loop struct {
	// Panicked, if set, is called with what a controller panicked with, while
	// the stack still shows where.
	Panicked func(controller string, value any)

	store       *Store
	self        Owner
	controllers []*registered
	random      uint64
}

// NewLoop returns a loop over a store. seed spreads the retries of nodes that
// fail at the same time; the same seed gives the same times.
func NewLoop(s *Store, seed uint64) (*Loop, error) {
	self, err := s.Register(LoopName, Output{Kind: resource.ControllerStatusKind})
	if err != nil {
		return nil, err
	}
	return &Loop{store: s, self: self, random: seed | 1}, nil
}

// registered is a controller and how it has fared.
type registered struct {
	Controller
	spec   Spec
	by     Owner
	seen   []uint64 // sequence numbers of inputs at the start of the last run
	heard  []uint64 // the same of external counters
	status resource.ControllerStatus

	wake     time.Duration // next run that the controller or its interval asks for
	retry    time.Duration // end of the backoff; never when the last run was good
	attempts int           // failed runs in a row
	failedAt time.Duration // the last of them
	pause    time.Duration // after that

	trigger resource.Kind // input that moved last, 0 for an external one
	changes rate          // of runs that inputs made
	news    rate          // of runs that external counters made
	held    time.Duration // no change makes it run before
	// The fight, if there is one.
	fights int           // in a row
	fought time.Duration // last one
}

// rate counts what happens within a window of time.
type rate struct {
	since time.Duration
	count int
}

// exceeds counts one more, and reports whether there are more than most.
func (r *rate) exceeds(now, window time.Duration, most int) bool {
	if now >= r.since+window || now < r.since {
		*r = rate{since: now}
	}
	r.count++
	return r.count > most
}

// Add registers a controller. OutputError when it writes what another wants to
// write alone.
func (l *Loop) Add(c Controller) error {
	spec := c.Spec()
	by, err := l.store.Register(spec.Name, spec.Outputs...)
	if err != nil {
		return err
	}
	l.controllers = append(l.controllers, &registered{
		Controller: c, spec: spec, by: by, retry: never,
		seen: make([]uint64, len(spec.Inputs)), heard: make([]uint64, len(spec.External)),
		status: resource.ControllerStatus{Name: spec.Name},
	})
	return nil
}

// Pass runs what is due until nothing is, and returns the time since boot of
// the next run that is known of. The caller comes back then, or earlier when
// something outside has moved.
func (l *Loop) Pass(now time.Duration) time.Duration {
	for round := 0; round < maxRounds; round++ {
		busy := false
		for _, c := range l.controllers {
			moved := c.moved(l.store) && now >= c.held
			if !moved && now < c.wake && now < c.retry {
				continue
			}
			busy = true
			if moved && l.tooOften(c, now) {
				continue
			}
			l.run(c, now)
		}
		if !busy {
			return l.next()
		}
	}
	return now
}

func (l *Loop) next() time.Duration {
	next := never
	for _, c := range l.controllers {
		next = min(next, c.wake, c.retry)
		if c.held > 0 && c.moved(l.store) {
			next = min(next, c.held)
		}
	}
	return next
}

// moved reports whether an input is another than at the last run. The first
// run is due from the start: wake is 0.
func (c *registered) moved(s *Store) bool {
	for i, kind := range c.spec.Inputs {
		if s.tables[kind-1].core().seq != c.seen[i] {
			c.trigger = kind
			return true
		}
	}
	for i, count := range c.spec.External {
		if count() != c.heard[i] {
			c.trigger = 0
			return true
		}
	}
	return false
}

// tooOften counts a run that a change makes, and puts it off when there have
// been too many.
func (l *Loop) tooOften(c *registered, now time.Duration) bool {
	switch {
	case c.trigger != 0 && c.changes.exceeds(now, fightWindow, fightRuns):
		l.holdOff(c, now)
	case c.trigger == 0 && c.news.exceeds(now, stormWindow, stormRuns):
		c.held = c.news.since + stormWindow
	default:
		return false
	}
	return true
}

// run runs a controller once and notes how it went.
func (l *Loop) run(c *registered, now time.Duration) {
	// Before the run: what moves while it runs has not been seen.
	for i, kind := range c.spec.Inputs {
		c.seen[i] = l.store.tables[kind-1].core().seq
	}
	for i, count := range c.spec.External {
		c.heard[i] = count()
	}
	r := Run{Store: l.store, Now: now, By: c.by, wake: never}
	if c.spec.Interval > 0 {
		r.wake = now + c.spec.Interval
	}
	err := l.guarded(c, &r)
	c.status.Runs++
	c.wake, c.retry = max(r.wake, now+wakePause), never
	if err != nil {
		l.backOff(c, now)
		l.failed(c, err.Error())
	} else {
		c.status.LastError = ""
	}
	l.publish(c)
}

// backOff plans the run after one that failed. A good run between does not make
// the failure the first one again: it may have started a job, and the next one
// is told that the job has failed.
func (l *Loop) backOff(c *registered, now time.Duration) {
	if now > c.failedAt+2*c.pause {
		c.attempts = 0
	}
	c.attempts++
	c.failedAt, c.pause = now, l.backoff(c.attempts)
	c.retry = now + c.pause
}

// guarded keeps a panic inside of the controller.
func (l *Loop) guarded(c *registered, r *Run) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value}
			if l.Panicked != nil {
				l.Panicked(c.spec.Name, value)
			}
		}
	}()
	return c.Reconcile(r)
}

// holdOff lets a controller that fights rest, longer each time.
func (l *Loop) holdOff(c *registered, now time.Duration) {
	if now > c.fought+peace {
		c.fights = 0
	}
	c.fights++
	c.fought = now
	c.held = now + l.backoff(c.fights)
	c.wake = max(c.wake, c.held)
	c.changes = rate{}
	l.failed(c, l.fightText(c))
	l.publish(c)
}

func (l *Loop) fightText(c *registered) string {
	other := l.store.OwnerName(l.store.tables[c.trigger-1].core().last)
	return "livelock: " + c.spec.Name + " was made to run again and again, since " + other + " keeps changing " + c.trigger.String()
}

func (l *Loop) failed(c *registered, why string) {
	c.status.Failures++
	c.status.LastError = why
}

func (l *Loop) publish(c *registered) {
	c.status.NextRunNS = int64(min(c.wake, c.retry))
	if c.status.NextRunNS == int64(never) {
		c.status.NextRunNS = -1
	}
	// It fails only when there are more controllers than a table has room for.
	_ = l.store.Controllers.Put(l.self, c.status)
}

// backoff doubles from BackoffMin to BackoffMax, with up to a quarter more.
func (l *Loop) backoff(attempt int) time.Duration {
	d := BackoffMin << min(attempt-1, 6)
	// xorshift64: Marsaglia, "Xorshift RNGs", 2003.
	l.random ^= l.random << 13
	l.random ^= l.random >> 7
	l.random ^= l.random << 17
	d += time.Duration(l.random % uint64(d/4))
	return min(d, BackoffMax)
}

// PanicError is what a controller panicked with.
type PanicError struct{ Value any }

func (e *PanicError) Error() string {
	switch v := e.Value.(type) {
	case error:
		return "panic: " + v.Error()
	case string:
		return "panic: " + v
	}
	return "panic"
}

func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
