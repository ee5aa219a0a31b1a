package rpi

import (
	"bytes"
	"errors"

	"machined/hal"
)

// Strategy is how a trial boot is asked for.
type Strategy int

const (
	// Tryboot rests on the firmware's one-shot flag: config.txt names the old
	// slot until the commit, so that a hang, a panic or a power cut falls back
	// by itself.
	Tryboot Strategy = iota
	// FlipFirst is for a firmware that ignores the flag: config.txt names the
	// new slot from the beginning of the trial. Whoever uses it counts the boots
	// and calls Abandon after the last; a kernel that hangs is not caught.
	FlipFirst
)

// Bootloader is hal.Bootloader on the boot partition of a Raspberry Pi.
//
// config.txt names the default slot. tryboot.txt is there from Try to the end
// of the trial, and differs from config.txt in the letter of the slot alone. A
// slot's status file is there from Stage to Commit.
type Bootloader struct {
	Files    hal.BootFiles
	Strategy Strategy
}

const (
	// statusFile is in a slot that was never committed. Its content is one of
	// the two below, of the same size, so that a change is one write of a sector.
	statusFile = "status"
	staged     = "staged\n"
	failed     = "failed\n"
)

// slot returns what config.txt names, which has to be A or B, and its text.
func (b *Bootloader) slot() (name string, at int, text []byte, err error) {
	if text, err = b.Files.Read(ConfigFile); err != nil {
		return "", 0, nil, hal.WrapBoot("read "+ConfigFile, err)
	}
	s, err := FindSlot(text)
	if err != nil {
		return "", 0, nil, hal.WrapBoot("find the slot in "+ConfigFile, err)
	}
	name = string(rune(s.Letter))
	return name, s.Offset, text, hal.CheckSlot("find the slot in "+ConfigFile, name)
}

// tried returns the slot that tryboot.txt names. It is empty when there is
// none, or when it names none; there says which.
func (b *Bootloader) tried() (name string, there bool, err error) {
	text, err := b.Files.Read(TrybootFile)
	switch {
	case errors.Is(err, hal.ErrNotFound):
		return "", false, nil
	case errors.Is(err, hal.ErrInvalid): // too large to be ours
		return "", true, nil
	case err != nil:
		return "", false, hal.WrapBoot("read "+TrybootFile, err)
	}
	s, err := FindSlot(text)
	if err != nil || hal.OtherSlot(string(rune(s.Letter))) == "" {
		return "", true, nil
	}
	return string(rune(s.Letter)), true, nil
}

// status returns the content of the slot's status file; empty for none.
func (b *Bootloader) status(slot string) (string, error) {
	text, err := b.Files.Read(slot + "/" + statusFile)
	switch {
	case errors.Is(err, hal.ErrNotFound):
		return "", nil
	case err != nil:
		return "", hal.WrapBoot("read the status of slot "+slot, err)
	case string(text) == failed:
		return failed, nil
	}
	return staged, nil // also when a cut has left it empty
}

// setStatus writes the slot's status.
func (b *Bootloader) setStatus(slot, status string) error {
	path := slot + "/" + statusFile
	old, err := b.Files.Read(path)
	switch {
	case err == nil && string(old) == status:
		return nil
	case err == nil && len(old) == len(status):
		return hal.WrapBoot("write "+path, b.Files.Overwrite(path, 0, []byte(status)))
	}
	return hal.PutBootFile(b.Files, path, status)
}

// flip makes slot the default: one byte of one sector.
func (b *Bootloader) flip(slot string) error {
	named, at, text, err := b.slot()
	if err != nil || named == slot {
		return err
	}
	if err := b.Files.Overwrite(ConfigFile, int64(at), []byte(slot)); err != nil {
		return hal.WrapBoot("make slot "+slot+" the default in "+ConfigFile, err)
	}
	text[at] = slot[0]
	return hal.CompareBootFile(b.Files, ConfigFile, string(text))
}

// whole refuses a slot that is not.
func (b *Bootloader) whole(doing, slot string) error {
	m, why, err := hal.ReadSlot(b.Files, slot)
	if err != nil {
		return hal.WrapBoot(doing, err)
	}
	if why == "" {
		_, _, text, err := b.slot()
		if err != nil {
			return hal.WrapBoot(doing, err)
		}
		why = missing(m.Holds, text)
	}
	if why != "" {
		return hal.RefuseBoot(doing, "slot "+slot+" is not whole: "+why)
	}
	return nil
}

// Try implements hal.Bootloader.
func (b *Bootloader) Try(running, slot string) (restartArgument string, err error) {
	doing := "try slot " + slot
	if err := b.canTry(doing, running, slot); err != nil {
		return "", err
	}
	err = hal.WithBootFiles(b.Files, func() error {
		if err := b.setStatus(slot, staged); err != nil {
			return err
		}
		// Made anew each time, so that lines the user has changed in config.txt
		// hold for the trial too.
		if err := b.Files.Remove(TrybootFile); err != nil {
			return hal.WrapBoot("remove "+TrybootFile, err)
		}
		if b.Strategy == FlipFirst {
			return b.flip(slot)
		}
		return b.writeTryboot(slot)
	})
	if err != nil || b.Strategy == FlipFirst {
		return "", err
	}
	return TrybootArgument, nil
}

func (b *Bootloader) canTry(doing, running, slot string) error {
	if err := hal.CheckSlots(doing, running, slot); err != nil {
		return err
	}
	if running == slot {
		return hal.RefuseBoot(doing, "it runs already; stage the other slot and try that")
	}
	if err := b.settled(doing, running); err != nil {
		return err
	}
	return b.whole(doing, slot)
}

// writeTryboot compares the file with what it is to be before anybody sets the
// flag: a board that is told to read a damaged one hangs until its power is
// cut.
func (b *Bootloader) writeTryboot(slot string) error {
	_, at, text, err := b.slot()
	if err != nil {
		return err
	}
	text[at] = slot[0]
	return b.putTryboot(string(text))
}

func (b *Bootloader) putTryboot(text string) error {
	if err := hal.PutBootFile(b.Files, TrybootFile, text); err != nil {
		return errors.Join(err, b.Files.Remove(TrybootFile))
	}
	return nil
}

// probeFile is the command line that a trial of the running slot has, with the
// mark that tells it apart.
const probeFile = "probe.txt"

// ProbeTrial implements hal.TrialProber. The running slot gets one more file,
// which nothing but tryboot.txt names: see Recover, which removes both.
func (b *Bootloader) ProbeTrial(running string) (restartArgument string, err error) {
	doing := "try slot " + running + " to see what the firmware does"
	if err := hal.CheckSlot(doing, running); err != nil {
		return "", err
	}
	if err := b.settled(doing, running); err != nil {
		return "", err
	}
	_, _, text, err := b.slot()
	if err != nil {
		return "", err
	}
	line, err := b.Files.Read(running + "/" + hal.CommandLineName)
	if err != nil {
		return "", hal.WrapBoot(doing, err)
	}
	return TrybootArgument, hal.WithBootFiles(b.Files, func() error {
		if err := b.Files.Remove(TrybootFile); err != nil {
			return hal.WrapBoot("remove "+TrybootFile, err)
		}
		if err := hal.PutBootFile(b.Files, running+"/"+probeFile, string(bytes.TrimSpace(line))+" "+hal.TrialProbeMark+"\n"); err != nil {
			return err
		}
		return b.putTryboot(string(text) + "\n[all]\ncmdline=" + probeFile + "\n")
	})
}

// FlipFirst implements hal.TrialProber.
func (b *Bootloader) FlipFirst() { b.Strategy = FlipFirst }

// settled refuses unless the running slot is the default, and was committed:
// what is about to be overwritten is what the next boot needs otherwise, or what
// there is to fall back to.
func (b *Bootloader) settled(doing, running string) error {
	named, _, _, err := b.slot()
	if err != nil {
		return hal.WrapBoot(doing, err)
	}
	if named != running {
		return hal.RefuseBoot(doing, "slot "+running+" runs and "+ConfigFile+" names slot "+named+
			"; commit or roll back first, so that the default is the slot that runs")
	}
	status, err := b.status(running)
	if err != nil {
		return err
	}
	if status == staged {
		return hal.RefuseBoot(doing, "slot "+running+" runs on trial; commit it or roll back first")
	}
	return nil
}

// Stage implements hal.Bootloader.
func (b *Bootloader) Stage(running string, content hal.SlotContent) (hal.SlotWriter, error) {
	slot := hal.OtherSlot(running)
	doing := "stage slot " + slot
	if err := hal.CheckSlot(doing, running); err != nil {
		return nil, err
	}
	if err := b.settled(doing, running); err != nil {
		return nil, err
	}
	if err := b.fits(doing, content); err != nil {
		return nil, err
	}
	if err := hal.CheckSlotContent(b.Files, slot, content, statusFile); err != nil {
		return nil, err
	}
	if err := b.Files.Unlock(); err != nil {
		return nil, hal.WrapBoot(doing, err)
	}
	w, err := b.stage(slot, content)
	if err != nil {
		return nil, errors.Join(err, b.Files.Lock())
	}
	return w, nil
}

func (b *Bootloader) stage(slot string, content hal.SlotContent) (hal.SlotWriter, error) {
	if err := b.Files.Remove(TrybootFile); err != nil {
		return nil, hal.WrapBoot("remove "+TrybootFile, err)
	}
	w, err := hal.NewSlotStage(b.Files, slot, content)
	if err != nil {
		return nil, err
	}
	return w, b.setStatus(slot, staged)
}

// Commit implements hal.Bootloader.
func (b *Bootloader) Commit(slot string) error {
	doing := "commit slot " + slot
	if err := hal.CheckSlot(doing, slot); err != nil {
		return err
	}
	if err := b.whole(doing, slot); err != nil {
		return err
	}
	return hal.WithBootFiles(b.Files, func() error {
		if err := b.flip(slot); err != nil {
			return err
		}
		return b.committed(slot)
	})
}

// committed is what follows the flip. tryboot.txt goes last: until then it says
// that the slot which config.txt names was committed, and is on no trial.
func (b *Bootloader) committed(slot string) error {
	if err := b.Files.Remove(slot + "/" + statusFile); err != nil {
		return hal.WrapBoot("remove the status of slot "+slot, err)
	}
	return hal.WrapBoot("remove "+TrybootFile, b.Files.Remove(TrybootFile))
}

// Abandon implements hal.Bootloader.
func (b *Bootloader) Abandon(running, slot string) error {
	doing := "abandon slot " + slot
	if err := hal.CheckSlots(doing, running, slot); err != nil {
		return err
	}
	named, _, _, err := b.slot()
	if err != nil {
		return hal.WrapBoot(doing, err)
	}
	if named == slot {
		if err := b.whole(doing, hal.OtherSlot(slot)); err != nil {
			return err
		}
	}
	tried, _, err := b.tried()
	if err != nil {
		return hal.WrapBoot(doing, err)
	}
	return hal.WithBootFiles(b.Files, func() error {
		if named == slot && tried == slot {
			// It was committed, and a cut came before the rest was done.
			if err := b.committed(slot); err != nil {
				return err
			}
		}
		if err := b.flip(hal.OtherSlot(slot)); err != nil {
			return err
		}
		return b.ended(slot)
	})
}

// ended is what follows when slot is not the default: if it was on trial, that
// has failed. tryboot.txt goes last, since it is what tells of the trial.
func (b *Bootloader) ended(slot string) error {
	_, why, err := hal.ReadSlot(b.Files, slot)
	if err != nil {
		return err
	}
	old, err := b.status(slot)
	if err != nil {
		return err
	}
	tried, _, err := b.tried()
	if err != nil {
		return err
	}
	if why == "" && (old != "" || tried == slot) {
		if err := b.setStatus(slot, failed); err != nil {
			return err
		}
	}
	return hal.WrapBoot("remove "+TrybootFile, b.Files.Remove(TrybootFile))
}

var (
	_ hal.Bootloader  = (*Bootloader)(nil)
	_ hal.TrialProber = (*Bootloader)(nil)
)
