package supervise

import (
	"fmt"

	"machined/hal"
)

// health is what is known of a service that runs.
type health struct {
	healthy, wasHealthy bool
	ill                 string // why it is not healthy
	illSince            int64
	failures            int // in a row
	pause               int64
	// tooSlow counts the starts in a row that were given up before the service was
	// healthy.
	tooSlow int

	asking   hal.Job // the probe under way
	stale    bool    // it asks a process that has ended
	asked    int64
	hangsAt  int64
	probesAt int64 // when to ask next
}

// firstPause is how soon a service that is not healthy yet is asked again.
const firstPause = second

// fresh begins the life of a new process.
func (u *unit) fresh(now int64) {
	u.healthy = u.Probe == nil && u.External == nil
	u.wasHealthy, u.ill, u.illSince, u.failures, u.pause, u.probesAt = false, "", now, 0, firstPause/2, now
	u.troubled = nil
}

// retire lets the answer of a probe under way not count any more.
func (u *unit) retire() { u.stale = u.asking != nil }

// watch follows the health of a service that runs.
func (u *unit) watch(now int64) int64 {
	next := never
	switch {
	case u.External != nil:
		healthy, why := u.External()
		u.judge(now, healthy, why)
	case u.Probe != nil:
		next = u.probe(now)
	}
	if !u.healthy && u.RestartUnhealthyAfter > 0 {
		patience := u.patience()
		at := u.illSince + patience
		if now >= at {
			u.recycle = fmt.Sprintf("was not healthy for %d s", patience/second)
			if !u.wasHealthy {
				u.tooSlow++
			}
			return now
		}
		next = min(next, at)
	}
	u.tellTrouble(now)
	return next
}

// patienceMax is the longest wait for a service that has never been healthy, unless
// its own is longer.
const patienceMax = 600 * second

// patience is how long the service may be unhealthy. One that has been healthy and
// hangs gets no more than its own; to one that is slow to come up, as after a power
// cut on a worn card, each start in a row leaves twice the time of the one before:
// it would never be up otherwise.
func (u *unit) patience() int64 {
	if u.wasHealthy {
		return u.RestartUnhealthyAfter
	}
	const doublings = 16 // of a second, more than patienceMax
	return max(u.RestartUnhealthyAfter, min(u.RestartUnhealthyAfter<<min(u.tooSlow, doublings), patienceMax))
}

// judge takes a word on the health.
func (u *unit) judge(now int64, healthy bool, why string) {
	if healthy {
		why = ""
	}
	why = sentence(why, maxIll)
	if healthy == u.healthy && why == u.ill {
		return
	}
	if u.healthy && !healthy {
		u.illSince = now
	}
	u.healthy, u.ill = healthy, why
	if healthy {
		u.wasHealthy, u.tooSlow = true, 0
	}
	u.say(now, u.runningMessage())
}

// probe asks when it is time, one question at a time, and takes the answers in.
func (u *unit) probe(now int64) int64 {
	if u.owner.Prober == nil {
		u.judge(now, false, "nobody can ask it here")
		return never
	}
	u.takeAnswer(now)
	if u.asking == nil && now >= u.probesAt {
		u.asked, u.hangsAt = now, now+u.Probe.Timeout+second
		u.asking, u.stale = u.owner.Prober.Probe(&u.Service), false
		u.takeAnswer(now)
	}
	if u.asking != nil {
		return u.hangsAt
	}
	return u.probesAt
}

// takeAnswer takes in the answer of the probe under way. One that hangs in spite
// of its time-out is a failure at each period, and no other is begun beside it.
func (u *unit) takeAnswer(now int64) {
	switch {
	case u.asking == nil:
	case u.asking.Done():
		err := u.asking.Err()
		u.asking = nil
		if u.stale {
			return
		}
		u.answered(now, err)
		u.probesAt = now + u.pause
		if u.wasHealthy {
			u.probesAt = max(now+1, u.asked+u.Probe.Period)
		}
	case now >= u.hangsAt:
		u.hangsAt = now + u.Probe.Period
		if !u.stale {
			u.answered(now, errHangs)
		}
	}
}

// errHangs is the answer of a probe that does not end.
const errHangs hal.Error = "the probe does not end"

func (u *unit) answered(now int64, err error) {
	if err == nil {
		u.failures = 0
		u.judge(now, true, "")
		return
	}
	u.failures++
	if !u.wasHealthy {
		u.pause = min(2*u.pause, u.Probe.Period)
	}
	if !u.healthy || u.failures >= u.Probe.Threshold {
		u.judge(now, false, err.Error())
	}
}

// look reads the accounts of the cgroup from time to time, and what a process
// that has failed printed last, which arrives after its end.
func (u *unit) look(now int64) int64 {
	next := never
	if u.outputDue != 0 {
		if now >= u.outputDue {
			u.outputDue = 0
			if last := u.owner.Tail(u.ID); last != u.lastOutput {
				u.lastOutput = last
				u.owner.version++
			}
		} else {
			next = u.outputDue
		}
	}
	if u.state != Running || u.owner.Cgroups == nil || u.Cgroup == "" {
		return next
	}
	if now >= u.accountsDue {
		u.readAccounts()
		u.accountsDue = now + accountsEvery
	}
	return min(next, u.accountsDue)
}

// readAccounts reports whether processes were killed for want of memory since
// the last look.
func (u *unit) readAccounts() bool {
	if u.owner.Cgroups == nil || u.Cgroup == "" {
		return false
	}
	status, err := u.owner.Cgroups.Status(u.Cgroup)
	if err != nil {
		return false
	}
	more := status.OOMKills > u.oomSeen
	if more {
		u.oomKills += status.OOMKills - u.oomSeen
		u.owner.version++
	}
	u.oomSeen = status.OOMKills
	return more
}
