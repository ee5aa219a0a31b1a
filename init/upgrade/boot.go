package upgrade

import (
	"errors"
	"fmt"
	"time"

	"machined/hal"
)

// Boot finds out what this boot is: an ordinary one, a trial, or the fall back
// from one. It is called when STATE is there, or is known not to come; last is why
// the node went down before, for people. It takes as long as the card.
func (m *Manager) Boot(last string) error {
	if err := m.take(); err != nil {
		return err
	}
	defer close(m.known)
	defer m.release()
	r := m.load()
	if r.Phase != "" {
		m.edit(func() { m.show(r) }) // before anything else is published
	}
	if m.firmware().Trials == trialsIgnored {
		m.Prober.FlipFirst()
		m.edit(func() { m.ignored = true })
	}
	before, err := m.firstLook()
	if err != nil {
		return m.blind(r, err)
	}
	trial := m.Kexec || before.Trial == m.Slot || slot(before, m.Slot).State == hal.SlotTrial
	if r.Phase == Trying && r.To == m.Slot {
		// Committed, and the power went before that was written down.
		trial = trial || before.Default != m.Slot
		if !trial {
			r.Phase, r.Message = Committed, "it was healthy"
		}
	}
	if trial {
		return m.begin(r, before)
	}
	if err := m.Bootloader.Recover(m.Slot); err != nil {
		m.Say("%v.", err)
	}
	if r.Phase == Trying && r.From == m.Slot {
		if m.probe(r) {
			return m.look()
		}
		r = m.fellBack(r, last)
	}
	if err := m.look(); err != nil {
		return err
	}
	if r.Phase == "" {
		return nil // never upgraded
	}
	return m.note(r)
}

// firstLook reads the slots. A card that fails once does not keep a trial from
// being watched.
func (m *Manager) firstLook() (hal.BootState, error) {
	for try := 1; ; try++ {
		b, err := m.Bootloader.State(m.Slot)
		if err == nil || try == bootLooks {
			return b, err
		}
		m.Say("Reading the slots again in %s: %v.", m.pause, err)
		time.Sleep(m.pause)
	}
}

// bootLooks is how often the slots are read at boot until that succeeds.
const bootLooks = 5

// blind goes back from a trial that cannot be watched, since the slots cannot be
// read. If it was none after all, that ends with the attempts.
func (m *Manager) blind(r record, err error) error {
	err = fmt.Errorf("read the slots: %w", err)
	if r.Phase != Trying || r.To != m.Slot || r.Attempts >= maxAttempts {
		return err
	}
	if r.Boot != m.BootID {
		r.Attempts++
		r.Boot = m.BootID
	}
	m.edit(func() { m.record = r })
	return errors.Join(err, m.giveUp(fmt.Sprintf("version %s was not watched: %v", r.ToVersion, err)))
}

// begin starts the watch over a trial.
func (m *Manager) begin(r record, b hal.BootState) error {
	if r.To != m.Slot || r.Phase != Trying {
		// STATE is not there, or is a new one.
		r = record{From: hal.OtherSlot(m.Slot), To: m.Slot, FromVersion: slot(b, hal.OtherSlot(m.Slot)).Version}
	}
	r.Phase, r.ToVersion, r.Kexec = Trying, m.versionOf(b), m.Kexec
	if r.Boot != m.BootID {
		r.Attempts++
		r.Boot = m.BootID
	}
	r.Message = waiting
	m.edit(func() { m.boot, m.trial = b, true })
	m.Say("Slot %s is on trial: version %s, attempt %d.", m.Slot, r.ToVersion, r.Attempts)
	if err := m.honoured(); err != nil {
		m.Say("%v.", err)
	}
	if err := m.note(r); err != nil || r.Attempts <= maxAttempts {
		return err
	}
	// Where the firmware counts no boots, this does.
	return m.giveUp(fmt.Sprintf("version %s was not healthy in %d boots", r.ToVersion, maxAttempts))
}

// maxAttempts is how many boots a version has to be healthy.
const maxAttempts = 3

// fellBack says what is known of a trial that did not last.
func (m *Manager) fellBack(r record, last string) record {
	firmware := m.firmware().Trials
	r.Phase = RolledBack
	switch {
	case r.Kexec && r.Healthy:
		r.Phase, r.Kexec, r.Healthy = Staged, false, false
		r.Message = fmt.Sprintf("version %s was healthy when kexec had started it; `machinectl upgrade --staged` has the firmware try it, and keeps it", r.ToVersion)
		return r
	case r.Attempts == 0 && r.Kexec:
		r.Message = fmt.Sprintf("version %s, started by kexec, did not get as far as its data volume: its kernel or its init failed", r.ToVersion)
	case r.Attempts == 0 && firmware == trialsIgnored:
		r.Phase = Staged
		r.Message = fmt.Sprintf("the firmware ignores the request to try version %s, which has not run; `machinectl upgrade --staged` tries it by making it the default first: "+
			"that it does not start at all is then not caught", r.ToVersion)
		return r
	case r.Attempts == 0 && firmware == trialsHonoured:
		r.Message = fmt.Sprintf("version %s did not get as far as its data volume: its kernel or its init failed", r.ToVersion)
	case r.Attempts == 0:
		r.Message = fmt.Sprintf("version %s did not get as far as its data volume: its kernel or its init failed, or the firmware did not try it", r.ToVersion)
	case r.Message == "" || r.Message == waiting:
		r.Message = fmt.Sprintf("version %s ended without having been healthy, after %d attempts", r.ToVersion, r.Attempts)
	}
	if last != "" {
		r.Message += "; the machine went down by " + last
	}
	m.Say("Back on version %s: %s.", r.FromVersion, r.Message)
	return r
}

// versionOf is the version of the slot that runs, as its manifest has it.
func (m *Manager) versionOf(b hal.BootState) string {
	if v := slot(b, m.Slot).Version; v != "" {
		return v
	}
	return m.Facts.Version
}

const waiting = "waiting for it to be healthy"
