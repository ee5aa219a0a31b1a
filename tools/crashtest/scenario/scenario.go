package scenario

import (
	"errors"
	"fmt"
	"io/fs"

	"machined/hal"
	"machined/tools/crash"
)

// Moment is between two steps of a scenario. What the bootloader was asked for
// is done, and has to be on the disk.
type Moment struct {
	// After is the step that has ended.
	After string
	// Boots is the slot that the firmware would boot now.
	Boots string
	// Flagged is the slot that it would boot with the flag of a trial, which is
	// set from this moment to the next; empty where it is not.
	Flagged string
	// Fallback is a slot that may boot as well until the next moment; empty for
	// none.
	Fallback string
	// Judged is false for what only prepares.
	Judged bool
}

// Node is what a scenario runs on.
type Node struct {
	Backend
	Files hal.BootFiles
	// Boot is what the firmware sees.
	Boot fs.FS
	// Restart forgets what is in memory: all that a new boot sees is what the
	// boot partition has. May be nil.
	Restart func() error
	// Note keeps a moment. May be nil.
	Note func(Moment) error

	running string
	judged  bool
}

// Scenario is what may be cut. It begins in slot A of a new image.
type Scenario struct {
	Name        string
	before, run func(*Node) error
}

// Scenarios returns all of them.
func Scenarios() []Scenario {
	return []Scenario{
		{"commit", nil, committed("v2")},
		{"fail", nil, failed("v2")},
		{"abandon", nil, abandoned("v2")},
		// A version of the same length: what is left of it may pass for the new.
		{"again", failed("v0"), committed("v2")},
		{"rollback", committed("v2"), (*Node).rollback},
	}
}

// Run runs a scenario from its beginning.
func (n *Node) Run(s Scenario) error {
	n.running = "A"
	n.judged = s.before == nil
	if s.before != nil {
		if err := s.before(n); err != nil {
			return fmt.Errorf("scenario %s, before it begins: %w", s.Name, err)
		}
		n.judged = true
	}
	if err := n.moment(Moment{After: "beginning"}); err != nil {
		return fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	if err := s.run(n); err != nil {
		return fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	return nil
}

// moment notes what the firmware would do now. What m has of it is set here,
// Flagged only if it is not empty.
func (n *Node) moment(m Moment) error {
	m.Judged = n.judged
	c, err := crash.Choose(n.Boot, n.Rules)
	if err != nil {
		return fmt.Errorf("after %s: %w", m.After, err)
	}
	m.Boots = c.Slot
	if m.Flagged != "" {
		if c, err = crash.Choose(n.Boot, crash.Trial); err == nil && c.Slot != m.Flagged {
			err = fmt.Errorf("slot %s boots; want %s", c.Slot, m.Flagged)
		}
		if err != nil {
			return fmt.Errorf("after %s, with the flag of a trial: %w", m.After, err)
		}
	}
	if n.Note == nil {
		return nil
	}
	return n.Note(m)
}

// step does something and notes the moment after it.
func (n *Node) step(name string, do func() error) error {
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return n.moment(Moment{After: name})
}

// boot is a restart: the loader renames what it counts, and the node recovers
// what it finds.
func (n *Node) boot(rules crash.Rules) error {
	if n.Restart != nil {
		if err := n.Restart(); err != nil {
			return err
		}
	}
	c, err := crash.Choose(n.Boot, rules)
	if err != nil {
		return err
	}
	if err := n.step("boot of slot "+c.Slot, func() error { return n.count(c) }); err != nil {
		return err
	}
	n.running = c.Slot
	return n.step("Recover", func() error { return n.Bootloader(n.Files).Recover(c.Slot) })
}

// count has the loader rename the entry that it counts. A cut may leave neither
// name, and then the trial is over before it has begun.
func (n *Node) count(c crash.Choice) error {
	if c.From == "" {
		return nil
	}
	if err := n.moment(Moment{After: "the choice of slot " + c.Slot, Fallback: hal.OtherSlot(c.Slot)}); err != nil {
		return err
	}
	return errors.Join(n.Files.Unlock(), n.Files.Rename(c.From, c.To), n.Files.Lock())
}

// trial stages a version in the slot that does not run, and boots it.
func (n *Node) trial(version string) error {
	other := hal.OtherSlot(n.running)
	if err := n.step("Stage of slot "+other, func() error { return n.stage(n.Files, n.running, version) }); err != nil {
		return err
	}
	argument, err := n.Bootloader(n.Files).Try(n.running, other)
	if err != nil {
		return fmt.Errorf("try slot %s: %w", other, err)
	}
	rules := n.Rules
	if argument != "" {
		rules = crash.Trial
	}
	m := Moment{After: "Try"}
	if argument != "" {
		m.Flagged = other
	}
	if err := n.moment(m); err != nil {
		return err
	}
	if err := n.boot(rules); err != nil {
		return err
	}
	if n.running != other {
		return fmt.Errorf("the trial boots slot %s; want %s", n.running, other)
	}
	return nil
}

func (n *Node) commit() error {
	return n.step("Commit", func() error { return n.Bootloader(n.Files).Commit(n.running) })
}

func committed(version string) func(*Node) error {
	return func(n *Node) error {
		if err := n.trial(version); err != nil {
			return err
		}
		return n.commit()
	}
}

// failed has the trial's boots end without a word, until the old slot is back.
func failed(version string) func(*Node) error {
	return func(n *Node) error {
		old := n.running
		if err := n.trial(version); err != nil {
			return err
		}
		for range 4 {
			if err := n.boot(n.Rules); err != nil || n.running == old {
				return err
			}
		}
		return fmt.Errorf("slot %s still boots; want %s back", n.running, old)
	}
}

func abandoned(version string) func(*Node) error {
	return func(n *Node) error {
		if err := n.trial(version); err != nil {
			return err
		}
		return n.rollback()
	}
}

func (n *Node) rollback() error {
	slot := n.running
	if err := n.step("Abandon", func() error { return n.Bootloader(n.Files).Abandon(slot, slot) }); err != nil {
		return err
	}
	return n.boot(n.Rules)
}
