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

// floorClock steps a clock that stands before floor to it. A board without a
// clock wakes up in 1970, where no certificate is valid yet.
func floorClock(clock hal.Clock, floor time.Time) (stepped bool, err error) {
	if clock.Now() >= floor.UnixNano() {
		return false, nil
	}
	if err := clock.Set(floor.UnixNano()); err != nil {
		return false, fmt.Errorf("raise the clock to its floor: %w", err)
	}
	return true, nil
}

// builtAt returns the time of the sources that this program was built from.
func builtAt() time.Time {
	seconds, err := strconv.ParseInt(buildTime, 10, 64)
	if err != nil {
		return time.Unix(0, 0)
	}
	return time.Unix(seconds, 0)
}

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
	if err := n.files.Replace(n.at(clockFile), []byte(timesync.FormatTime(n.clock.Now())), false); err != nil {
		n.log.Printf("clock", "%v.", err)
	}
}
