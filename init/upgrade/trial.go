package upgrade

import (
	"errors"
	"fmt"
	"time"

	"machined/hal"
)

// Health is what a trial is judged by. Why says what is missing, "" when nothing
// is.
type Health func() (why string)

// never is the answer of Step when nothing is due.
const never = int64(1<<63 - 1)

// look again at a trial after this long, in nanoseconds.
const trialPoll = int64(time.Second)

// Step watches a trial and returns when to call it again, in nanoseconds since
// boot as now is. A trial that was healthy for long enough is committed; one that
// is not in time is taken back.
func (m *Manager) Step(now int64, health Health) int64 {
	m.mu.Lock()
	policy, r, watched, retry := m.policy, m.record, m.trial && !m.busy, m.retry
	m.mu.Unlock()
	if !watched {
		return never
	}
	if now < retry {
		return retry
	}
	why := health()
	switch {
	case why != "" && m.inTime:
		m.say(r, "it was healthy in time, and is not now: "+why)
	case why != "" && now >= int64(policy.Deadline):
		return m.late(r, policy, why, now)
	case why != "":
		m.healthy = 0
		m.say(r, why)
	case m.healthy == 0:
		m.healthy = max(now, 1)
		m.say(r, "healthy, for a moment")
	case now-m.healthy < int64(policy.Hold):
		return min(m.healthy+int64(policy.Hold), now+trialPoll)
	case r.Kexec && !r.Healthy:
		r.Healthy = true
		r.Message = fmt.Sprintf("healthy; started by kexec: a restart goes back to version %s, and `machinectl upgrade --staged` there has the firmware try this one", r.FromVersion)
		m.spawn(now, func() error { return m.note(r) })
	case r.Kexec:
		m.say(r, r.Message)
	case r.Manual:
		m.inTime = true // and what follows is for its owner to judge
		m.say(r, "healthy; `machinectl commit` keeps it, a restart goes back")
	default:
		m.spawn(now, func() error { return m.commit(r, "it was healthy") })
		return never
	}
	return now + trialPoll
}

// late ends a trial that is not healthy in time.
func (m *Manager) late(r record, policy Policy, why string, now int64) int64 {
	if !policy.AutoRollback {
		m.say(r, "not healthy in time: "+why+"; it stays, not committed: a restart goes back")
		return now + trialPoll
	}
	m.spawn(now, func() error {
		return m.giveUp(fmt.Sprintf("version %s was not healthy in %s: %s", r.ToVersion, policy.Deadline, why))
	})
	return never
}

// say shows what a trial waits for, without wearing the card.
func (m *Manager) say(r record, message string) {
	m.mu.Lock()
	moved := m.status.Message != message
	if moved {
		m.status.Message = message
		m.version++
	}
	m.mu.Unlock()
}

// retryPause is from one attempt to end a trial to the next, in nanoseconds: a card
// that takes no more writes must not be asked for them without end.
const retryPause = int64(30 * time.Second)

// spawn does what takes as long as the card does. If that fails, Step does it again
// after a pause.
func (m *Manager) spawn(now int64, run func() error) {
	if m.take() != nil {
		return
	}
	m.mu.Lock()
	m.retry = now + retryPause
	m.mu.Unlock()
	go func() {
		err := run()
		m.release()
		if err != nil {
			m.Say("%v.", err)
			m.edit(func() { m.status.Message = err.Error() })
		}
		m.Kick()
	}()
}

// commit makes the running system what boots. The caller has claimed the slots.
func (m *Manager) commit(r record, why string) error {
	if err := m.Bootloader.Commit(m.Slot); err != nil {
		return fmt.Errorf("keep version %s: %w", r.ToVersion, err)
	}
	m.edit(func() { m.trial = false })
	r.Phase, r.Message = Committed, why
	m.Say("Version %s is kept: %s.", r.ToVersion, why)
	err := m.note(r)
	if lookErr := m.look(); err == nil {
		err = lookErr
	}
	return err
}

// giveUp goes back from the running system, which is on trial. The caller has
// claimed the slots.
func (m *Manager) giveUp(why string) error {
	m.mu.Lock()
	r := m.record
	m.mu.Unlock()
	r.Message, r.Healthy = why, false
	// Still Trying: the other system finds it so, and says that it came back.
	if err := m.note(r); err != nil {
		m.Say("%v.", err)
	}
	m.Say("Going back to slot %s: %s.", hal.OtherSlot(m.Slot), why)
	if !r.Kexec { // of which the firmware knows nothing
		if err := m.Bootloader.Abandon(m.Slot, m.Slot); err != nil {
			// The firmware goes back by itself: it tries only so often.
			m.Say("%v.", err)
		}
	}
	return m.Reboot(Restart{Reason: ByRollback, Detail: why, Slot: hal.OtherSlot(m.Slot)})
}

// GiveUp goes back from a trial that cannot go on, at a time as Step has it. It does
// nothing where the running system is on none.
func (m *Manager) GiveUp(now int64, why string) {
	m.mu.Lock()
	due := m.trial && now >= m.retry
	m.mu.Unlock()
	if due {
		m.spawn(now, func() error { return m.giveUp(why) })
	}
}

// Commit keeps the running system, which is on trial, whatever its health.
func (m *Manager) Commit(by string) error {
	if err := m.claim(); err != nil {
		return err
	}
	defer m.release()
	if !m.OnTrial() {
		return ErrNoTrial
	}
	if m.Kexec {
		return ErrKexec
	}
	m.mu.Lock()
	r := m.record
	m.mu.Unlock()
	return m.commit(r, "committed by "+by)
}

// Rollback goes back to the other slot's system, which has to be one that was kept:
// it is not tried, but boots for good.
func (m *Manager) Rollback(by string) error {
	if err := m.claim(); err != nil {
		return err
	}
	defer m.release()
	if err := m.look(); err != nil {
		return err
	}
	m.mu.Lock()
	b, before, trial := m.boot, m.record, m.trial
	m.mu.Unlock()
	if trial {
		return m.giveUp("asked for by " + by)
	}
	back := slot(b, hal.OtherSlot(m.Slot))
	switch {
	case back.State == hal.SlotEmpty:
		return ErrNoFallback
	case back.State != hal.SlotGood:
		return fmt.Errorf("%w: slot %s is %s, and was never healthy; install its version anew, which tries it first", ErrUnproven, back.Name, back.State)
	case b.Pinned != "":
		return fmt.Errorf("go back to slot %s: %w: the loader is set to boot %s whatever this node says; remove that default", back.Name, hal.ErrInvalid, b.Pinned)
	}
	if err := m.Bootloader.Abandon(m.Slot, m.Slot); err != nil {
		return fmt.Errorf("go back to slot %s: %w", back.Name, err)
	}
	r := record{Phase: RolledBack, From: back.Name, To: m.Slot, FromVersion: back.Version, ToVersion: m.versionOf(b), Message: "asked for by " + by}
	if err := m.note(r); err != nil {
		m.Say("%v.", err)
	}
	err := m.Reboot(Restart{Reason: ByRollback, Detail: r.Message, Slot: back.Name})
	if err != nil && b.Default == m.Slot { // the next boot must not be of what was refused
		err = errors.Join(err, m.Bootloader.Commit(m.Slot), m.note(before), m.look())
	}
	return err
}
