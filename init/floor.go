package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"machined/hal"
	"machined/reconcile/assembly"
	"machined/reconcile/resource"
	"machined/reconcile/timesync"
)

// buildTime is the Unix time of the sources, in seconds; the build sets it.
var buildTime = "0"

// floorClock steps a clock that stands before floor to it, and one that stands at
// ceiling, a Unix time in nanoseconds, or beyond. A board without a clock wakes up
// in 1970, where no certificate is valid yet; one with a clock that has lost its
// battery may wake up where none is any more.
func floorClock(clock hal.Clock, floor time.Time, ceiling int64) (stepped bool, err error) {
	if now := clock.Now(); now >= floor.UnixNano() && now < ceiling {
		return false, nil
	}
	if err := clock.Set(floor.UnixNano()); err != nil {
		return false, fmt.Errorf("set the clock to its floor: %w", err)
	}
	return true, nil
}

// builtAt returns the Unix time of the sources that this program was built from,
// in nanoseconds, 0 for unknown.
func builtAt() int64 {
	seconds, err := strconv.ParseInt(buildTime, 10, 64)
	if err != nil {
		return 0
	}
	return seconds * int64(time.Second)
}

// ceiling is the Unix time in nanoseconds from which on no time is believed.
func (n *node) ceiling() int64 { return timesync.Ceiling(n.built) }

// raiseClock keeps the clock from standing before floor. What a server has said
// is better than any floor, which may come from a clock that was wrong.
func (n *node) raiseClock(floor time.Time) error {
	if n.syncs() > 0 {
		return nil
	}
	if !floor.Before(time.Unix(0, n.ceiling())) {
		if n.refused.Equal(floor) {
			return nil // it was said
		}
		n.refused = floor
		return fmt.Errorf("raise the clock to %s: that is more than %s after this program was built; it is passed over", rfc3339(floor), timesync.LifeText)
	}
	was := time.Unix(0, n.clock.Now())
	stepped, err := floorClock(n.clock, floor, n.ceiling())
	switch {
	case stepped && was.Before(floor):
		n.log.Printf("clock", "The clock stood before %s and was set to it.", rfc3339(floor))
	case stepped:
		n.log.Printf("clock", "The clock stood at %s, more than %s after this program was built, and was set to %s.", rfc3339(was), timesync.LifeText, rfc3339(floor))
	}
	return err
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// clockFile holds the time that STATE has seen last.
const clockFile = stateDir + "/" + assembly.ClockName

// raiseToKept keeps the clock from standing before the time that was kept on
// STATE.
func (n *node) raiseToKept() error {
	text, err := n.files.Read(n.at(clockFile))
	if errors.Is(err, hal.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	kept, ok := timesync.ParseTime(string(text))
	if !ok {
		return fmt.Errorf("read %s: it holds no time; it is passed over", clockFile)
	}
	return n.raiseClock(time.Unix(0, kept))
}

// syncs returns how often a server has said the time.
func (n *node) syncs() uint64 {
	status, _, _ := n.store.Time.Get(resource.TimeStatus{}.Key())
	return status.SyncCount
}

// followClock does what a clock that was set asks for.
func (n *node) followClock() {
	if n.syncs() == n.clockSets {
		return
	}
	n.clockSets = n.syncs()
	trouble := ""
	if err := n.renewIdentity(); err != nil {
		trouble = err.Error()
	}
	// Time servers are asked every few minutes, and what is wrong stays so.
	if trouble != "" && trouble != n.renewTrouble {
		n.log.Printf("identity", "%s.", trouble)
	}
	n.renewTrouble = trouble
}

// keepClock keeps the time for the next start, on the way down.
func (n *node) keepClock() {
	if !n.state.ready || n.syncs() == 0 {
		return
	}
	now := n.clock.Now()
	if now >= n.ceiling() {
		n.log.Printf("clock", "%s is not kept: it is more than %s after this program was built.", rfc3339(time.Unix(0, now)), timesync.LifeText)
		return
	}
	if err := n.files.Replace(n.at(clockFile), []byte(timesync.FormatTime(now)), false); err != nil {
		n.log.Printf("clock", "%v.", err)
	}
}
