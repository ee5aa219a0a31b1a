package scenario

import (
	"fmt"

	"machined/hal"
	"machined/tools/crash"
)

// Upgrade boots what a power cut has left, installs a version beside it, tries
// and commits it, and checks that it is whole and nothing is left to do.
func (n *Node) Upgrade(version string) error {
	n.judged = true
	if err := n.boot(n.Rules); err != nil {
		return fmt.Errorf("boot after the cut: %w", err)
	}
	st, err := n.Bootloader(n.Files).State(n.running)
	if err != nil {
		return err
	}
	if err := n.truthful(st); err != nil {
		return err
	}
	if slotOf(st, n.running).State == hal.SlotTrial { // which a node commits first
		if err := n.commit(); err != nil {
			return err
		}
	}
	if err := n.trial(version); err != nil {
		return err
	}
	if err := n.commit(); err != nil {
		return err
	}
	return n.settled(version)
}

// Begin notes what boots of what a power cut has left.
func (n *Node) Begin(after string) error {
	n.judged = true
	return n.moment(Moment{After: after})
}

func slotOf(st hal.BootState, name string) hal.Slot { return st.Slots[name[0]-'A'] }

// truthful checks that no slot is said to be whole which is not.
func (n *Node) truthful(st hal.BootState) error {
	for _, s := range st.Slots {
		if s.State == hal.SlotEmpty {
			continue
		}
		if _, err := crash.Whole(n.Boot, s.Name); err != nil {
			return fmt.Errorf("slot %s is said to be %s: %w", s.Name, s.State, err)
		}
	}
	return nil
}

// settled checks that nothing is left to do after a commit.
func (n *Node) settled(version string) error {
	st, err := n.Bootloader(n.Files).State(n.running)
	if err != nil {
		return err
	}
	s := slotOf(st, n.running)
	if st.Default != n.running || st.Trial != "" || st.Problem != "" || s.State != hal.SlotGood || s.Version != version {
		return fmt.Errorf("after the commit of slot %s: default %q, trial %q, state %s, version %q, problem %q",
			n.running, st.Default, st.Trial, s.State, s.Version, st.Problem)
	}
	slot, err := crash.Check(n.Boot, n.Rules)
	if err == nil && slot != n.running {
		err = fmt.Errorf("slot %s boots after the commit of slot %s", slot, n.running)
	}
	return err
}
