package x86

import (
	"machined/hal"
)

// State implements hal.Bootloader.
func (b *Bootloader) State(running string) (hal.BootState, error) {
	if err := hal.CheckSlot("read the state of the slots", running); err != nil {
		return hal.BootState{}, err
	}
	list, damaged, err := b.entries()
	if err != nil {
		return hal.BootState{}, err
	}
	var st hal.BootState
	if st.Pinned, err = b.pinned(); err != nil {
		return hal.BootState{}, err
	}
	chosen, _ := first(list, nil)
	for i, slot := range [2]string{"A", "B"} {
		m, why, err := b.whole(slot)
		if err != nil {
			return hal.BootState{}, err
		}
		st.Slots[i].Name = slot
		if why == "" {
			st.Slots[i].Version = m.Version
			st.Slots[i].State, st.Slots[i].Tries = stateOf(of(list, slot, nil), slot == running)
		} else if chosen.slot == slot {
			st.Problem = "the loader's first entry is " + chosen.path + ", and slot " + slot + " is not whole: " + why +
				"; commit or roll back to the slot that runs"
		}
	}
	good, found := first(list, entry.good)
	st.Default = good.slot
	if chosen.trying() {
		st.Trial = chosen.slot
	}
	switch {
	case st.Problem != "":
	case !found:
		st.Problem = "no slot has an entry without a counter in " + Entries + "; commit the slot that runs"
	case len(damaged) > 0:
		st.Problem = damaged[0].path + " is damaged; it is removed by the next upgrade or commit of slot " + damaged[0].slot
	case st.Pinned != "":
	case running != st.Default && len(of(list, running, func(e entry) bool { return e.Counted && e.Enabled })) == 0:
		st.Problem = "slot " + running + " runs though slot " + st.Default +
			" is what boots, and no trial is under way; restart if that was asked for, or look at slot " + st.Default
	}
	return st, nil
}

// stateOf returns the state of a slot that is whole.
func stateOf(entries []entry, running bool) (state hal.SlotState, tries int) {
	state = hal.SlotStaged
	if running {
		state = hal.SlotTrial // its entry was lost: what runs has to be committed
	}
	for _, e := range entries {
		switch {
		case e.good():
			return hal.SlotGood, 0
		case e.trying(), e.Enabled && running: // the last try is this boot
			state, tries = hal.SlotTrial, max(tries, e.Left)
		case state != hal.SlotTrial || running && tries == 0:
			state = hal.SlotFailed
		}
	}
	return state, tries
}

// Recover implements hal.Bootloader: x.conf beside x+N.conf is a commit that was
// cut off. If x.conf can be booted, it is finished; if not, it is taken back,
// and the trial goes on.
func (b *Bootloader) Recover(running string) error {
	if err := hal.CheckSlot("recover the boot partition", running); err != nil {
		return err
	}
	list, damaged, err := b.entries()
	if err != nil {
		return err
	}
	var gone, dangerous []entry
	for _, slot := range [2]string{"A", "B"} {
		counted := of(list, slot, func(e entry) bool { return e.Counted })
		if len(of(list, slot, entry.good)) > 0 {
			gone = append(gone, counted...)
		}
		gone = append(gone, of(list, slot, func(e entry) bool { return !e.Counted && !e.Enabled })...)
		// One that the user has edited may be all that boots the slot.
		spare := len(of(list, slot, func(e entry) bool { return e.Enabled })) > 0
		gone = append(gone, of(damaged, slot, func(e entry) bool { return e.Counted || spare })...)
		if slot == running {
			continue
		}
		_, why, err := b.whole(slot)
		if err != nil {
			return err
		}
		if why != "" {
			dangerous = append(dangerous, of(list, slot, entry.trying)...)
		}
	}
	if len(gone)+len(dangerous) == 0 {
		return nil
	}
	return hal.WithBootFiles(b.Files, func() error {
		for _, e := range dangerous {
			if err := b.disable(e); err != nil {
				return err
			}
		}
		return b.remove(gone)
	})
}
