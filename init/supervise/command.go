package supervise

import (
	"context"
	"fmt"
	"slices"

	"machined/hal"
)

// Action is what a command asks for.
type Action uint8

const (
	// DoStart lets a service run; it still waits for what it depends on. It has got
	// there when it is healthy.
	DoStart Action = iota
	// DoStop ends a service, and before it those that depend on it and run. None
	// is started again before it is asked for.
	DoStop
	// DoRestart is DoStop, and then DoStart of all that it has stopped.
	DoRestart
)

// String returns the action's name.
func (a Action) String() string {
	switch a {
	case DoStart:
		return "start"
	case DoStop:
		return "stop"
	}
	return "restart"
}

const (
	// ErrUnknown says that no service has the id.
	ErrUnknown hal.Error = "no such service"
	// ErrGoingDown says that all services are being stopped for good.
	ErrGoingDown hal.Error = "the node is going down"
	// ErrEnded says that the service has ended in another state than was asked for.
	ErrEnded hal.Error = "it has ended"
	// ErrOvertaken says that another command has asked for the contrary meanwhile.
	ErrOvertaken hal.Error = "somebody has asked for the contrary meanwhile"
)

// Result is what has become of a command.
type Result struct {
	Status Status
	// Also holds the ids of the other services that were stopped.
	Also []string
}

// command is an action under way.
type command struct {
	action Action
	id     string
	done   chan struct{} // closed with the last word

	// Under the supervisor's mu.
	result Result
	err    error

	// The rest belongs to the loop.
	obeyed   bool
	starts   int // that the unit had
	finished bool
}

// Do carries out an action and returns when the service has got there, when it
// is known that it will not, or when ctx is done: then the action still stands,
// and the error says how far it has come. It may be called from any goroutine.
func (s *Supervisor) Do(ctx context.Context, id string, action Action) (Result, error) {
	c := &command{action: action, id: id, done: make(chan struct{})}
	s.mu.Lock()
	if s.down {
		s.mu.Unlock()
		return Result{}, fmt.Errorf("%s service %s: %w", action, id, ErrGoingDown)
	}
	s.commands = append(s.commands, c)
	s.mu.Unlock()
	s.Kick()
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-c.done:
		if c.err != nil {
			return c.result, fmt.Errorf("%s service %s: %w", action, id, c.err)
		}
		return c.result, nil
	default:
	}
	s.commands = slices.DeleteFunc(s.commands, func(o *command) bool { return o == c })
	return c.result, fmt.Errorf("%s service %s: %w; it is %s so far: %s", action, id, ctx.Err(), c.result.Status.State, c.result.Status.Message)
}

// pending returns the commands under way.
func (s *Supervisor) pending() []*command {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.commands) == 0 {
		return nil
	}
	return slices.Clone(s.commands)
}

// obey begins what was asked for.
func (s *Supervisor) obey(now int64) {
	if s.stopping {
		return // answer tells them
	}
	for _, c := range s.pending() {
		if c.obeyed {
			continue
		}
		c.obeyed = true
		u := s.find(c.id)
		if u == nil {
			continue
		}
		c.starts = u.starts
		switch c.action {
		case DoStart:
			u.wake(now)
		case DoStop:
			s.take(u, c, goDown)
		case DoRestart:
			s.take(u, c, goAgain)
		}
	}
}

func (s *Supervisor) find(id string) *unit {
	i := slices.IndexFunc(s.units, func(u *unit) bool { return u.ID == id && !u.forget })
	if i < 0 {
		return nil
	}
	return s.units[i]
}

// wake starts a service at once that is paused, was stopped, or has ended.
func (u *unit) wake(now int64) {
	switch {
	case u.active() && u.goal == goDown:
		u.goal = goAgain // once it has ended
	case u.active(), u.goal == goAgain, u.goal == goUp && u.state == Preparing:
	default:
		u.renew(now)
	}
}

// take brings a service down, and those that depend on it and are up.
func (s *Supervisor) take(u *unit, c *command, to goal) {
	u.goal, u.why = to, "by hand"
	var also []string
	gone := []*unit{u}
	for _, d := range s.units { // dependencies come first
		if d == u || d.goesDown() && !d.active() || !slices.ContainsFunc(d.deps, func(x *unit) bool { return slices.Contains(gone, x) }) {
			continue
		}
		gone = append(gone, d)
		if !d.active() {
			continue // it waits; but what depends on it may run
		}
		if d.goal == goUp || to == goDown {
			d.goal, d.why = to, "with "+u.ID+", on which it depends"
		}
		also = append(also, d.ID)
	}
	s.mu.Lock()
	c.result.Also = also
	s.mu.Unlock()
}

// answer tells those who wait what has become of their commands.
func (s *Supervisor) answer() {
	pending := s.pending()
	if len(pending) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range pending {
		u := s.find(c.id)
		switch {
		case s.stopping:
			c.finish(ErrGoingDown)
		case u == nil && c.obeyed:
			c.finish(ErrUnknown)
		case u != nil && c.obeyed:
			c.result.Status = u.status()
			if reached, err := c.judge(u); reached {
				c.finish(err)
			}
		}
	}
	s.commands = slices.DeleteFunc(s.commands, func(c *command) bool { return c.finished })
}

func (c *command) finish(err error) {
	c.err, c.finished = err, true
	close(c.done)
}

// judge reports whether the command has come to an end.
func (c *command) judge(u *unit) (reached bool, err error) {
	if (c.action == DoStop) != (u.goal == goDown) {
		return true, ErrOvertaken
	}
	if c.action == DoStop {
		return !u.active() && u.state != Waiting && u.state != Preparing, nil
	}
	if u.goal != goUp {
		return false, nil
	}
	switch u.state {
	case Running:
		return u.healthy && (c.action == DoStart || u.starts > c.starts), nil
	case Finished:
		if u.endedWell {
			return u.starts > c.starts, nil
		}
		return true, ErrEnded
	case Failed, Skipped:
		return true, fmt.Errorf("%w: it is %s: %s", ErrEnded, u.state, u.message)
	}
	return false, nil
}
