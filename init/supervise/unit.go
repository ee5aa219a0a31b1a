package supervise

import (
	"fmt"

	"machined/hal"
)

// goal is where a service is to go.
type goal uint8

const (
	goUp goal = iota
	goDown
	// goAgain is down, and then up.
	goAgain
)

// unit is a service and its state.
type unit struct {
	Service
	owner *Supervisor
	deps  []*unit // as DependsOn; nil for one that is not among the services

	state   State
	message string
	note    string // what of the limits could not be set
	since   int64
	goal    goal
	why     string   // it goes down
	forget  bool     // once it has ended
	replace *Service // by which it is started again
	// recycle says why it is started again though nobody asked.
	recycle string
	held    bool // a dependent that goes down is still there

	run       *attempt // the start under way, or whose process is there
	job       hal.Job  // of a hook
	step      stopStep
	killed    bool
	after     outcome
	endedWell bool
	started   int64 // when it was last started
	next      int64 // when to start it again, to kill it, or to wait for a hook no more
	backoff   int64
	starts    int
	inRow     int
	blockedBy blocker
	troubled  *unit // a dependency that is not healthy while it runs
	health

	lastExit, lastOutput string
	outputDue            int64 // when lastOutput is to be looked for, 0 for not
	oomKills, oomSeen    uint64
	accountsDue          int64

	lastKept Change
	changes  []Change // a ring, under owner.mu
	oldest   int
}

// attempt is one start. Its job fills it in, and hands it over with its end.
type attempt struct {
	job     hal.Job // nil once its end was taken in
	pid     int
	missing string // limits that could not be set
	oomSeen uint64
	exit    *hal.ExitStatus
	givenUp bool // under the supervisor's mu: it is to have no process any more
}

// errGivenUp says that a service was stopped before its process was there.
const errGivenUp hal.Error = "it was stopped meanwhile"

// outcome is what becomes of a service once it was cleaned up after.
type outcome struct {
	state  State
	reason string
	retry  bool
	well   bool
}

func newUnit(s *Supervisor, svc Service) *unit {
	u := &unit{Service: svc, owner: s, backoff: backoffMin, message: "not started yet"}
	u.lastKept = Change{State: Waiting, Reason: u.message}
	u.changes = []Change{u.lastKept}
	return u
}

// active reports whether something of the service is there.
func (u *unit) active() bool { return u.run != nil || u.state == Stopping }

func (u *unit) goesDown() bool { return u.owner.stopping || u.goal != goUp || u.recycle != "" }

// met reports whether those who depend on the service may start.
func (u *unit) met() bool {
	return u.state == Running && u.healthy || u.state == Finished && u.endedWell && u.Restart != Always
}

// up moves a service that is to run one step on.
func (u *unit) up(now int64) int64 {
	switch u.state {
	case Waiting, Skipped:
		return u.begin(now)
	case Preparing:
		return u.prepared(now)
	case Running:
		return u.watch(now)
	case Stopping: // it has ended by itself
		return u.clean(now)
	}
	return never
}

// begin starts the service if it may be started now.
func (u *unit) begin(now int64) int64 {
	if now < u.next {
		return u.next
	}
	if b := u.blocker(); b != (blocker{}) {
		if b != u.blockedBy || u.state == Waiting != !b.skip || u.next != 0 {
			u.blockedBy, u.next = b, 0
			state := Waiting
			if b.skip {
				state = Skipped
			}
			u.set(now, state, b.String())
		}
		return never
	}
	u.blockedBy = blocker{}
	if u.job != nil && !u.job.Done() {
		u.set(now, Waiting, "waiting for its last preparation to end")
		return never
	}
	u.job = nil
	if u.Prepare != nil {
		u.job = u.Prepare()
	}
	if u.job == nil {
		return u.launch(now)
	}
	u.set(now, Preparing, "being prepared")
	return u.prepared(now)
}

// prepared goes on when the service is.
func (u *unit) prepared(now int64) int64 {
	if !u.job.Done() {
		return never
	}
	err := u.job.Err()
	u.job = nil
	if err == nil {
		return u.launch(now)
	}
	u.started = now
	u.retry(fmt.Sprintf("it could not be prepared: %v", err), now)
	return u.next
}

// launch starts the process, beside the loop: exec(2) waits for the disk.
func (u *unit) launch(now int64) int64 {
	s := u.owner
	stdout, stderr := -1, -1
	if s.Output != nil {
		stdout, stderr = s.Output(u.ID)
	}
	a := &attempt{}
	spec := hal.ProcessSpec{
		Argv: u.Command, Env: u.Env, Dir: u.Dir, UID: u.UID, GID: u.GID, Stdout: stdout, Stderr: stderr, Cgroup: u.Cgroup,
		NoNewPrivs: u.NoNewPrivs, Bounded: u.Bounded, Capabilities: u.Capabilities, OOMScoreAdj: u.OOMScoreAdj,
	}
	limits := u.Limits
	u.run = a
	u.endedWell = false
	u.set(now, Starting, "being started")
	a.job = s.Jobs.Start(func() error { return s.start(a, spec, limits) })
	u.settleStart(now)
	if u.state == Running {
		return u.watch(now)
	}
	if u.state == Waiting {
		return u.next
	}
	return never
}

// start runs beside the loop. A service whose cgroup cannot be had starts
// without: a node that does its work unbounded beats one that does not.
func (s *Supervisor) start(a *attempt, spec hal.ProcessSpec, limits hal.CgroupLimits) error {
	if s.Cgroups == nil {
		spec.Cgroup = ""
	}
	if spec.Cgroup != "" {
		missing, err := s.Cgroups.Create(spec.Cgroup, limits)
		a.missing = missing
		if err != nil {
			a.missing = err.Error()
		}
		status, err := s.Cgroups.Status(spec.Cgroup)
		a.oomSeen = status.OOMKills
		if err != nil {
			spec.Cgroup = ""
		}
	}
	s.mu.Lock()
	givenUp := a.givenUp || s.down
	s.mu.Unlock()
	if givenUp {
		return errGivenUp
	}
	pid, err := s.Processes.Start(spec, func(e hal.ExitStatus) { s.exited(a, e) })
	a.pid = pid
	return err
}

// settleStart takes in a start that has succeeded or failed.
func (u *unit) settleStart(now int64) {
	if u.run == nil || u.run.job == nil || !u.run.job.Done() {
		return
	}
	a := u.run
	err := a.job.Err()
	a.job = nil
	u.started = now
	if err != nil {
		u.run = nil
		if err != errGivenUp {
			u.lastExit = sentence(err.Error(), maxReason)
		}
		u.conclude(outcome{state: Failed, reason: err.Error(), retry: u.Restart != Never || err == errGivenUp}, now)
		return
	}
	if u.starts++; u.starts == 1 {
		u.oomSeen = a.oomSeen
	}
	u.note = ""
	if a.missing != "" {
		u.note = "; not limited by " + a.missing
	}
	u.accountsDue = now + accountsEvery
	u.fresh(now)
	u.set(now, Running, u.runningMessage())
}

// ended decides what becomes of a service whose process has ended.
func (u *unit) ended(e hal.ExitStatus, now int64) {
	how := fmt.Sprintf("exited with code %d", e.Code)
	if e.Signal != 0 {
		how = fmt.Sprintf("was ended by signal %d", e.Signal)
	}
	oom := u.readAccounts()
	if e.Signal == sigKill && !u.killed {
		how += ", perhaps for want of memory"
		if oom {
			how = "was killed for want of memory"
		}
	}
	if !u.KillProcessOnly {
		u.killCgroup() // it would run beside its next start
	}
	u.run, u.lastExit = nil, how
	u.retire()
	ok := e.Code == 0 && e.Signal == 0
	stopped := u.step != notAsked
	out := outcome{state: Finished, reason: how, well: ok && !stopped}
	switch {
	case u.recycle != "":
		out = outcome{reason: u.recycle, retry: true}
	case stopped && u.killed:
		out.state, out.reason = Failed, fmt.Sprintf("killed: it did not end within its grace of %d s", u.StopGrace/second)
	case stopped:
		out.reason = "stopped: " + how
	case u.Restart == Always || u.Restart == OnFailure && !ok:
		out.retry = true
	case !ok:
		out.state = Failed
	}
	if !ok && !stopped && u.owner.Tail != nil {
		u.outputDue = now + outputAfter
	}
	u.conclude(out, now)
}

// conclude cleans up after the service, and then lets it be what it is to be.
func (u *unit) conclude(out outcome, now int64) {
	u.after, u.step, u.killed, u.job = out, notAsked, false, nil
	if u.Cleanup != nil {
		u.job = u.Cleanup()
	}
	if u.job == nil {
		u.become(now)
		return
	}
	u.step, u.next = cleaning, now+hookWithin
	u.set(now, Stopping, out.reason+"; being cleaned up after")
	u.clean(now)
}

// clean waits for the clean-up.
func (u *unit) clean(now int64) int64 {
	done := u.job == nil || u.job.Done()
	if !done && now < u.next {
		return u.next
	}
	switch {
	case !done:
		u.after.reason += "; its clean-up does not end"
	case u.job != nil && u.job.Err() != nil:
		u.after.reason += fmt.Sprintf("; it could not be cleaned up after: %v", u.job.Err())
	}
	if done {
		u.job = nil // else its next start waits for it
	}
	u.step = notAsked
	u.become(now)
	if u.state == Waiting {
		return u.next
	}
	return never
}

// become applies the outcome.
func (u *unit) become(now int64) {
	u.recycle = ""
	u.endedWell = u.after.well
	switch out := u.after; {
	case u.goal == goAgain && !u.owner.stopping:
		u.renew(now)
	case u.goal == goDown && out.retry:
		u.set(now, Finished, "stopped while it was not running")
	case out.retry:
		u.retry(out.reason, now)
	default:
		u.set(now, out.state, out.reason)
	}
}

// retry schedules the next start, later after each quick end.
func (u *unit) retry(why string, now int64) {
	if now-u.started >= stableAfter {
		u.backoff, u.inRow = backoffMin, 0
	}
	u.inRow++
	// Services that failed together must not come back together.
	u.next = now + u.backoff + u.owner.random.Int64N(u.backoff/8)
	why = fmt.Sprintf("%s; starting again after %d s", why, u.backoff/second)
	if u.inRow >= crashLoop {
		why += fmt.Sprintf(", having failed %d times in a row", u.inRow)
	}
	u.set(now, Waiting, why)
	u.backoff = min(2*u.backoff, backoffMax)
}

// crashLoop is from how many failures in a row a service says so.
const crashLoop = 3
