package rpi

import (
	"bytes"
	"strings"

	"machined/hal"
)

// State implements hal.Bootloader.
func (b *Bootloader) State(running string) (hal.BootState, error) {
	var st hal.BootState
	if err := hal.CheckSlot("read the state of the slots", running); err != nil {
		return st, err
	}
	named, _, text, configErr := b.slot()
	var why [2]string
	for i, slot := range [2]string{"A", "B"} {
		var err error
		if st.Slots[i], why[i], err = b.slotState(slot, text); err != nil {
			return hal.BootState{}, err
		}
	}
	if configErr != nil {
		st.Problem = configErr.Error()
		return st, nil
	}
	tried, there, err := b.tried()
	if err != nil {
		return hal.BootState{}, err
	}
	st.Default = named
	b.addTrial(&st, running, named, tried)
	n := index(named)
	switch {
	case why[n] != "":
		st.Problem = ConfigFile + " names slot " + named + ", which is not whole: " + why[n] +
			"; the firmware may drop os_prefix without a word; commit or roll back to the slot that runs"
	case running != named && tried != running && st.Trial == "":
		st.Problem = "slot " + running + " runs though " + ConfigFile + " names slot " + named +
			" and no trial is under way; the firmware did not take what it names; restart if a rollback was asked for, else commit slot " + running
	case there && tried == "":
		st.Problem = TrybootFile + " is damaged; it is removed at the next boot"
	}
	return st, nil
}

func index(slot string) int { return int(slot[0] - 'A') }

// slotState looks at one slot; why says what keeps it from being whole.
func (b *Bootloader) slotState(slot string, config []byte) (s hal.Slot, why string, err error) {
	s.Name = slot
	m, why, err := hal.ReadSlot(b.Files, slot)
	if err != nil {
		return s, "", err
	}
	if why == "" {
		why = missing(m.Holds, config)
	}
	if why != "" {
		return s, why, nil
	}
	s.Version = m.Version
	status, err := b.status(slot)
	switch status {
	case staged:
		s.State = hal.SlotStaged
	case failed:
		s.State = hal.SlotFailed
	default:
		s.State = hal.SlotGood
	}
	return s, "", err
}

// addTrial says which slot is on trial, if one is.
func (b *Bootloader) addTrial(st *hal.BootState, running, named, tried string) {
	if tried != "" && tried != named {
		s := &st.Slots[index(tried)]
		if s.State == hal.SlotEmpty {
			return
		}
		s.State = hal.SlotTrial
		if tried != running {
			st.Trial, s.Tries = tried, 1
		}
		return
	}
	// A slot that config.txt names and that was never committed: its trial was
	// begun by the flip, and lasts until somebody ends it.
	if s := &st.Slots[index(named)]; s.State == hal.SlotStaged && tried == "" {
		s.State, s.Tries = hal.SlotTrial, 1
		st.Trial, st.Default = named, hal.OtherSlot(named)
	} else if s.State == hal.SlotStaged {
		s.State = hal.SlotGood // committed: Recover has the rest to do
	}
}

// Recover implements hal.Bootloader. What it does first is what tells it, at
// another time, that there is something left to do.
func (b *Bootloader) Recover(running string) error {
	const doing = "recover the boot partition"
	if err := hal.CheckSlot(doing, running); err != nil {
		return err
	}
	tried, there, err := b.tried()
	if err != nil || !there {
		return hal.WrapBoot(doing, err)
	}
	named, _, _, err := b.slot()
	if err != nil {
		return hal.WrapBoot(doing, err)
	}
	if tried == running && named != running {
		return nil // the trial is under way
	}
	return hal.WithBootFiles(b.Files, func() error {
		switch tried {
		case "":
			return hal.WrapBoot("remove the damaged "+TrybootFile, b.Files.Remove(TrybootFile))
		case named:
			if err := b.Files.Remove(named + "/" + probeFile); err != nil {
				return hal.WrapBoot("remove "+named+"/"+probeFile, err)
			}
			return b.committed(named)
		}
		return b.ended(tried)
	})
}

// The files without which the firmware boots no slot, or something else than
// the slot (os_prefix is dropped unless kernel and device tree are there;
// overlays come from outside unless README is).
const (
	kernelFile    = "kernel8.img"
	initramfsFile = "initramfs.img"
	readmeFile    = "overlays/README"
)

// missing says which file a slot lacks that config.txt needs; empty for none.
func missing(holds func(path string) bool, config []byte) string {
	for _, f := range [2]string{kernelFile, initramfsFile} {
		if !holds(f) {
			return f + " is missing"
		}
	}
	if needsTree(config) && !holds(readmeFile) {
		return readmeFile + " is missing"
	}
	return ""
}

// needsTree reports whether the board takes its device tree from the slot:
// config.txt says of those that bring their own "device_tree=".
func needsTree(config []byte) bool {
	for rest, more := config, true; more; {
		var line []byte
		line, rest, more = bytes.Cut(rest, []byte("\n"))
		if string(bytes.TrimSpace(line)) == "device_tree=" {
			return false
		}
	}
	return true
}

// fits refuses content that the firmware would not boot.
func (b *Bootloader) fits(doing string, content hal.SlotContent) error {
	_, _, config, err := b.slot()
	if err != nil {
		return hal.WrapBoot(doing, err)
	}
	tree := false
	for _, f := range content.Files {
		tree = tree || strings.HasSuffix(f.Path, ".dtb") && !strings.Contains(f.Path, "/")
	}
	why := missing(hal.SlotManifest{Files: content.Files}.Holds, config)
	if why == "" && needsTree(config) && !tree {
		why = "it has no device tree (*.dtb)"
	}
	if why != "" {
		return hal.RefuseBoot(doing, "the content would not boot: "+why)
	}
	return nil
}
