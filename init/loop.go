package main

import (
	"slices"
	"time"

	"machined/init/supervise"
	"machined/reconcile/resource"
)

const (
	// idlePass is the longest sleep of the loop. What moves wakes it; this
	// bounds what a missed event can cost.
	idlePass = 30 * time.Second
	// shutdownDeadline bounds the stopping of services, whatever they do.
	shutdownDeadline = 90 * time.Second
	// killReserve is what is left of it when all services are killed, whatever
	// their grace, and then all other processes.
	killReserve = 10 * time.Second
	// flushDeadline bounds the wait for a slow card to take what is in memory, or
	// the next piece of what is erased; one that is dead takes nothing.
	flushDeadline = 60 * time.Second
)

// loop runs until an ending is asked for. A resident node is succeeded by the
// slot's program meanwhile.
func (n *node) loop() (*request, error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if r := n.requested(); r != nil {
			return r, nil
		}
		if p := n.successionDue(); p != nil {
			if err := n.succeed(p); err != nil {
				return nil, err
			}
		}
		timer.Reset(n.pass())
		select {
		case <-n.kicks:
		case <-timer.C:
		}
	}
}

// pass does what is due, publishes, and returns how long the loop may sleep.
// The watchdog is fed here and nowhere else: a loop that hangs is a node that
// must be reset.
func (n *node) pass() time.Duration {
	now := n.clock.SinceBoot()
	wait := min(idlePass, n.reconcile(now))
	n.followState()
	n.followConfig()
	n.followClock()
	n.releaseServices(now)
	wait = min(wait, time.Duration(n.supervisor.Step(now)-now))
	wait = min(wait, time.Duration(n.followAPI(now)-now))
	n.publishServices()
	wait = min(wait, time.Duration(n.followUpgrades(now)-now))
	wait = min(wait, time.Duration(n.followNetboot(now)-now))
	n.followInstall()
	n.closePodLogs(now)
	n.reporter.look()
	n.tell()
	n.clearCard()
	n.feed()
	if n.boot.WatchdogSecs > 0 {
		wait = min(wait, time.Duration(n.boot.WatchdogSecs)*time.Second/2)
	}
	return max(wait, 0)
}

func (n *node) feed() {
	if n.watchdog == nil {
		return
	}
	if err := n.watchdog.Feed(); err != nil {
		n.log.Printf("watchdog", "%v.", err)
	}
}

// shown is what publishServices has published last.
type shown struct {
	version     uint64 // of the supervisor's
	api, system resource.ServiceStatus
}

// publishServices publishes the supervised services and machined's own, if they
// have changed.
func (n *node) publishServices() {
	now := shown{api: n.apiStatus}
	if n.supervisor != nil { // the API comes before the services
		now.version = n.supervisor.Version()
	}
	if n.systemStatus != nil {
		now.system = *n.systemStatus
	}
	if now == n.shown {
		return
	}
	n.shown = now
	n.closeOutputs(func(id string) bool { return n.supervisor == nil || n.supervisor.Has(id) })
	t := &n.store.Services
	t.Begin()
	n.put(t.Put(n.by, n.apiStatus))
	if n.systemStatus != nil {
		n.put(t.Put(n.by, *n.systemStatus))
	}
	var services []supervise.Status
	if n.supervisor != nil {
		services = n.supervisor.Status()
	}
	for _, s := range services {
		n.put(t.Put(n.by, serviceStatus(s)))
	}
	t.Sweep(n.by)
}

// serviceStatus is what the store has of a service.
func serviceStatus(s supervise.Status) resource.ServiceStatus {
	return resource.ServiceStatus{
		ServiceID: s.ID, State: s.State.String(), Healthy: s.Healthy, Message: s.Message,
		Restarts: uint64(s.Restarts), FailuresInRow: uint64(s.InRow), LastExit: s.LastExit, LastOutput: s.LastOutput,
		OOMKills: s.OOMKills, Critical: s.Critical, SinceNS: s.Since, PID: int64(s.PID),
	}
}

// put reports what the store refuses. It refuses nothing but too much.
func (n *node) put(err error) {
	if err != nil {
		n.log.Printf("store", "%v.", err)
	}
}

// down stops everything in reverse order and leaves the disks clean.
func (n *node) down(r *request) {
	deadline := time.Now().Add(shutdownDeadline)
	n.log.Printf("shutdown", "Going down, asked by %s.", r.by)
	n.stopUpgrade()
	n.stopServices(deadline)
	n.endProcesses(deadline)
	if n.server != nil {
		n.server.Stop(2 * time.Second)
	}
	if last := n.requested(); last != nil {
		r = last // a power-off may have overtaken a restart
	}
	disks := n.volumeDisks()
	n.flush(func(moved func()) {
		n.clearCard() // what the last calls have led to is done, not forgotten
		n.keepClock()
		n.keepEnd(r)
		n.unmountForReset(r.reset, disks, moved)
	})
	if n.watchdog != nil && r.end == powerOff {
		// A machine that stays off must not be reset; one that restarts keeps
		// the watchdog, should the restart hang.
		if err := n.watchdog.Disarm(); err != nil {
			n.log.Printf("watchdog", "%v.", err)
		}
	}
	n.log.Printf("shutdown", "Done.")
}

// flush runs what waits for disks, beside the loop, which feeds the watchdog
// meanwhile: a reset in the middle would lose what a slow card was yet to get. It
// waits for flushDeadline at most, counted anew whenever write says that it has
// moved on; the machine then ends without. A fixed time would cut the erasing of a
// large volume on a slow card, and the next boot would begin it again, for ever.
func (n *node) flush(write func(moved func())) {
	done, moves := make(chan error, 1), make(chan struct{}, 1)
	moved := func() {
		select {
		case moves <- struct{}{}:
		default:
		}
	}
	go func() { done <- guarded(func() error { write(moved); return nil }) }()
	deadline := time.NewTimer(flushDeadline)
	defer deadline.Stop()
	for {
		n.feed()
		select {
		case err := <-done:
			if err != nil {
				n.log.Printf("shutdown", "%v.", err)
			}
			return
		case <-moves:
			deadline.Reset(flushDeadline)
		case <-deadline.C:
			n.log.Printf("shutdown", "The disks do not answer for %s; going on without them.", flushDeadline)
			return
		case <-time.After(time.Second):
		}
	}
}

// stopServices stops the services in reverse order of their dependencies.
func (n *node) stopServices(deadline time.Time) {
	// What is killed needs a moment to end.
	n.supervisor.Stop(n.clock.SinceBoot() + int64(time.Until(deadline)-killReserve))
	for {
		now := n.clock.SinceBoot()
		wait := min(time.Duration(n.supervisor.Step(now)-now), time.Second)
		n.publishServices()
		n.tell()
		n.feed()
		if n.supervisor.Done() {
			return
		}
		if time.Now().After(deadline) {
			n.log.Printf("shutdown", "Services are still running after %s; going on without them.", shutdownDeadline)
			return
		}
		select {
		case <-n.kicks:
		case <-time.After(max(wait, 0)):
		}
	}
}

// endProcesses ends what no service has: what has left its group or its cgroup,
// and containers that outlive their runtime. They would keep the disks in use.
func (n *node) endProcesses(deadline time.Time) {
	left := 0
	for _, step := range []struct {
		signal int
		wait   time.Duration
	}{{sigTerm, 2 * time.Second}, {sigKill, 2 * time.Second}} {
		var err error
		if left, err = n.processes.SignalAll(step.signal); err != nil {
			n.log.Printf("shutdown", "%v.", err)
			return
		}
		for end := time.Now().Add(step.wait); left > 0 && time.Now().Before(end) && time.Now().Before(deadline); {
			n.feed()
			time.Sleep(endPoll)
			if left, err = n.processes.SignalAll(0); err != nil {
				return
			}
		}
		if left == 0 {
			return
		}
	}
	n.log.Printf("shutdown", "%d processes do not end; going on without them.", left)
}

const (
	sigTerm, sigKill = 15, 9
	// endPoll is how often processes that were told to end are counted.
	endPoll = 20 * time.Millisecond
)

// unmountAll unmounts what holds data, the last mounted first. What is busy is
// detached lazily; the root and the kernel's file systems stay, and what is to be
// left.
func (n *node) unmountAll(left ...string) {
	n.mounts.Sync()
	all, err := n.mounts.List()
	if err != nil {
		n.log.Printf("shutdown", "%v.", err)
	}
	for i := len(all) - 1; i >= 0; i-- {
		m := all[i]
		if m.Target == "/" || m.ReadOnly || m.FSType != "ext4" && m.FSType != "vfat" || slices.Contains(left, m.Target) {
			continue
		}
		if err := n.mounts.Unmount(m.Target, false); err != nil {
			n.log.Printf("shutdown", "Detaching %s, which is in use: %v.", m.Target, err)
			_ = n.mounts.Unmount(m.Target, true)
		}
	}
	n.mounts.Sync()
}
