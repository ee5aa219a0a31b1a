package supervise

import (
	"errors"
	"fmt"
	"slices"

	"machined/hal"
)

// stopStep is how far the stopping of a service has come.
type stopStep uint8

const (
	notAsked stopStep = iota
	hooking           // BeforeStop runs
	asked             // TERM was sent
	killing           // KILL was sent
	cleaning          // its process has ended, Cleanup runs
)

// hold finds the services that have to wait while they go down. Which one is
// looked at first does not matter: an update may have taken a dependency out of
// the config, which then comes after those that need it.
func (s *Supervisor) hold() {
	for _, u := range s.units {
		u.held = false
	}
	for more := true; more; {
		more = false
		for i := len(s.units) - 1; i >= 0; i-- {
			if u := s.units[i]; u.goesDown() && !u.held && s.isHeld(u) {
				u.held, more = true, true
			}
		}
	}
}

// isHeld reports whether one of the services that go down still needs u:
// directly, or by way of one that has ended itself.
func (s *Supervisor) isHeld(u *unit) bool {
	return slices.ContainsFunc(s.units, func(d *unit) bool {
		return d != u && d.recycle == "" && d.goesDown() && (d.active() || d.held) && slices.Contains(d.DependsOn, u.ID)
	})
}

// down moves a service one step towards its end.
func (u *unit) down(now int64) int64 {
	again := u.goal == goAgain && !u.owner.stopping
	switch u.state {
	case Waiting, Skipped, Preparing, Finished, Failed:
		switch {
		case again:
			u.renew(now)
		case u.state == Waiting || u.state == Preparing || u.state == Skipped && !u.owner.stopping:
			u.set(now, Finished, "stopped while it was not running")
		}
	case Starting: // it may yet have a process
		u.owner.mu.Lock()
		u.run.givenUp = true
		u.owner.mu.Unlock()
	case Running:
		// One that is started again for its own sake is not waited for.
		if u.held && u.recycle == "" && now < u.owner.killAt {
			return never
		}
		return u.stop(now)
	case Stopping:
		return u.stopOn(now)
	}
	return never
}

// stop begins to stop a service that runs.
func (u *unit) stop(now int64) int64 {
	if u.BeforeStop != nil {
		u.job = u.BeforeStop(u.owner.stopping)
	}
	if u.job == nil {
		return u.term(now, "asked to end")
	}
	within := u.BeforeStopWithin
	if within == 0 {
		within = hookWithin
	}
	u.step, u.next = hooking, min(now+within, u.owner.killAt)
	u.set(now, Stopping, "what it has begun is ended first")
	return u.stopOn(now)
}

// stopOn follows the steps of a stop.
func (u *unit) stopOn(now int64) int64 {
	if u.step == cleaning {
		return u.clean(now)
	}
	if now >= u.owner.killAt && u.step != killing {
		return u.kill(now, "being killed: the node does not wait any longer")
	}
	switch u.step {
	case hooking:
		switch {
		case u.job.Done() && u.job.Err() == nil:
			return u.term(now, "asked to end")
		case u.job.Done():
			return u.term(now, fmt.Sprintf("asked to end, though what it has begun could not be ended: %v", u.job.Err()))
		case now >= u.next:
			return u.term(now, "asked to end, though what it has begun does not end")
		}
	case asked:
		if now >= u.next {
			return u.kill(now, "being killed: its grace has expired")
		}
	default:
		return never
	}
	return min(u.next, u.owner.killAt)
}

// term asks the process to end.
func (u *unit) term(now int64, message string) int64 {
	u.job = nil
	u.step, u.next = asked, now+u.StopGrace
	if u.recycle != "" {
		message += ": " + u.recycle
	} else if u.why != "" {
		message += ": " + u.why
	}
	u.set(now, Stopping, message+u.signal(sigTerm))
	return min(u.next, u.owner.killAt)
}

// kill ends the process, and all that is in its cgroup.
func (u *unit) kill(now int64, message string) int64 {
	u.step, u.killed = killing, true
	message += u.signal(sigKill)
	if !u.KillProcessOnly {
		u.killCgroup()
	}
	u.set(now, Stopping, message)
	return never
}

// signal returns what to add to the message. A group that is gone is one whose
// exit status is on the way.
func (u *unit) signal(signal int) string {
	if u.run == nil {
		return ""
	}
	if err := u.owner.Processes.Signal(u.run.pid, signal); err != nil {
		return fmt.Sprintf(" (%v)", err)
	}
	return ""
}

func (u *unit) killCgroup() {
	if u.owner.Cgroups == nil || u.Cgroup == "" {
		return
	}
	if err := u.owner.Cgroups.Kill(u.Cgroup); err != nil && !errors.Is(err, hal.ErrNotFound) {
		u.note = fmt.Sprintf("; what is left in its cgroup could not be killed: %v", err)
	}
}
