package x86

import (
	"errors"
	"strings"

	"machined/hal"
)

// DefaultTries is how many boots a trial has if Bootloader.Tries does not say.
const DefaultTries = 3

// Bootloader is hal.Bootloader on the EFI system partition of a board with
// systemd-boot, x86-64 or arm64.
//
// A slot that is good has an entry without a counter, one on trial an entry with
// one. What the loader boots is the first of them: see EntryText. Of an entry
// that is needed no byte is written but in its first sector, in place: a rename
// on FAT can leave both names or none.
type Bootloader struct {
	Files hal.BootFiles
	// Pin returns what the user has set for the loader to boot, in the EFI
	// variable LoaderEntryDefault; empty for nothing. It may be nil.
	Pin func() string
	// Tries is how many boots a trial has; 0 means DefaultTries.
	Tries int
}

// The files of a slot that the loader is told of.
const (
	KernelFile    = "linux.efi"
	InitramfsFile = "initramfs.img"
)

// missing says which file the loader would not find; empty for none.
func missing(m hal.SlotManifest) string {
	for _, f := range [2]string{KernelFile, InitramfsFile} {
		if !m.Holds(f) {
			return f + " is missing"
		}
	}
	return ""
}

// whole says why a slot is not; empty if it is.
func (b *Bootloader) whole(slot string) (m hal.SlotManifest, why string, err error) {
	if m, why, err = hal.ReadSlot(b.Files, slot); err == nil && why == "" {
		why = missing(m)
	}
	return m, why, err
}

// needWhole refuses a slot that is not.
func (b *Bootloader) needWhole(doing, slot string) error {
	_, why, err := b.whole(slot)
	if err == nil && why != "" {
		err = hal.RefuseBoot(doing, "slot "+slot+" is not whole: "+why)
	}
	return err
}

// pinned returns what the user has set in place of our choice; empty for none.
func (b *Bootloader) pinned() (string, error) {
	if b.Pin != nil {
		if pin := b.Pin(); pin != "" {
			return pin, nil
		}
	}
	text, err := b.Files.Read(LoaderFile)
	if err != nil && !errors.Is(err, hal.ErrNotFound) {
		return "", hal.WrapBoot("read "+LoaderFile, err)
	}
	if pin := FindDefault(text); !strings.EqualFold(pin, DefaultPattern) {
		return pin, nil
	}
	return "", nil
}

// Stage implements hal.Bootloader.
func (b *Bootloader) Stage(running string, content hal.SlotContent) (hal.SlotWriter, error) {
	slot := hal.OtherSlot(running)
	doing := "stage slot " + slot
	if err := hal.CheckSlot(doing, running); err != nil {
		return nil, err
	}
	if why := missing(hal.SlotManifest{Files: content.Files}); why != "" {
		return nil, hal.RefuseBoot(doing, "the content would not boot: "+why)
	}
	if err := hal.CheckSlotContent(b.Files, slot, content); err != nil {
		return nil, err
	}
	list, damaged, err := b.entries()
	if err != nil {
		return nil, err
	}
	if err := b.canFallBack(doing, running, list); err != nil {
		return nil, err
	}
	if err := b.Files.Unlock(); err != nil {
		return nil, hal.WrapBoot(doing, err)
	}
	w, err := b.stage(slot, content, append(of(list, slot, nil), of(damaged, slot, nil)...))
	if err != nil {
		return nil, errors.Join(err, b.Files.Lock())
	}
	return w, nil
}

// stage has all entries of the slot off the disk before a file of the slot goes.
func (b *Bootloader) stage(slot string, content hal.SlotContent, entries []entry) (hal.SlotWriter, error) {
	if err := b.remove(entries); err != nil {
		return nil, err
	}
	w, err := hal.NewSlotStage(b.Files, slot, content)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// canFallBack refuses while the running slot is not what is left when the other
// one does not boot.
func (b *Bootloader) canFallBack(doing, running string, list []entry) error {
	if len(of(list, running, entry.good)) == 0 {
		return hal.RefuseBoot(doing, "slot "+running+", which runs, has no entry without a counter in "+Entries+
			"; commit it first, so that there is something to fall back to")
	}
	return nil
}

// Try implements hal.Bootloader. No argument is needed: the loader counts.
func (b *Bootloader) Try(running, slot string) (restartArgument string, err error) {
	doing := "try slot " + slot
	if err := hal.CheckSlots(doing, running, slot); err != nil {
		return "", err
	}
	if running == slot {
		return "", hal.RefuseBoot(doing, "it runs already; stage the other slot and try that")
	}
	list, damaged, err := b.entries()
	if err != nil {
		return "", err
	}
	if err := b.canFallBack(doing, running, list); err != nil {
		return "", err
	}
	if err := b.needWhole(doing, slot); err != nil {
		return "", err
	}
	pin, err := b.pinned()
	if err != nil {
		return "", err
	}
	if pin != "" {
		return "", hal.RefuseBoot(doing, "the loader is set to boot "+pin+" and would not try another; remove that default, or set default "+DefaultPattern+" in "+LoaderFile)
	}
	return "", hal.WithBootFiles(b.Files, func() error {
		if err := b.remove(append(of(list, slot, nil), of(damaged, slot, nil)...)); err != nil {
			return err
		}
		name := SlotEntry(slot)
		name.Counted, name.Left = true, b.Tries
		if name.Left <= 0 {
			name.Left = DefaultTries
		}
		return b.write(name, slot, next(list))
	})
}

// Commit implements hal.Bootloader.
func (b *Bootloader) Commit(slot string) error {
	doing := "commit slot " + slot
	if err := hal.CheckSlot(doing, slot); err != nil {
		return err
	}
	if err := b.needWhole(doing, slot); err != nil {
		return err
	}
	return hal.WithBootFiles(b.Files, func() error { return b.makeGood(slot) })
}

// makeGood gives a slot an entry without a counter that comes before all
// others, and then removes those with one.
func (b *Bootloader) makeGood(slot string) error {
	list, damaged, err := b.entries()
	if err != nil {
		return err
	}
	good := of(list, slot, entry.good)
	if len(good) > 0 {
		err = b.prefer(good[0], list)
	} else {
		// What has that name is disabled or damaged.
		plain := func(e entry) bool { return !e.Counted }
		if err = b.remove(append(of(list, slot, plain), of(damaged, slot, plain)...)); err == nil {
			err = b.write(SlotEntry(slot), slot, next(list))
		}
	}
	if err != nil {
		return err
	}
	counted := func(e entry) bool { return e.Counted }
	return b.remove(append(of(list, slot, counted), of(damaged, slot, counted)...))
}

// Abandon implements hal.Bootloader.
func (b *Bootloader) Abandon(running, slot string) error {
	doing := "abandon slot " + slot
	if err := hal.CheckSlots(doing, running, slot); err != nil {
		return err
	}
	other := hal.OtherSlot(slot)
	return hal.WithBootFiles(b.Files, func() error {
		list, _, err := b.entries()
		if err != nil {
			return err
		}
		if len(of(list, slot, entry.good)) > 0 || len(of(list, other, entry.good)) == 0 {
			if err := b.needWhole(doing, other); err != nil {
				return err
			}
			if err := b.makeGood(other); err != nil {
				return err
			}
		}
		// A trial has failed, and its entry says so.
		for _, e := range of(list, slot, func(e entry) bool { return e.Enabled && e.Counted }) {
			if err := b.disable(e); err != nil {
				return err
			}
		}
		return nil
	})
}

var _ hal.Bootloader = (*Bootloader)(nil)
