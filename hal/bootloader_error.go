package hal

import "errors"

// BootError says what went wrong on the boot partition. What Err is, such as
// ErrInvalid, is found by errors.Is.
type BootError struct {
	Doing string // what was tried, and on what: "write B/linux.efi"
	Why   string // what is wrong, and what to do; may be empty
	Err   error
}

func (e *BootError) Error() string {
	text := e.Doing + ": "
	if e.Why != "" {
		text += e.Why + ": "
	}
	return text + e.Err.Error()
}

func (e *BootError) Unwrap() error { return e.Err }

// WrapBoot says what was tried when err came; nil for none.
func WrapBoot(doing string, err error) error {
	if err == nil {
		return nil
	}
	return &BootError{Doing: doing, Err: err}
}

// RefuseBoot is a BootError of what is not done, and why: ErrInvalid.
func RefuseBoot(doing, why string) error {
	return &BootError{Doing: doing, Why: why, Err: ErrInvalid}
}

// WithBootFiles unlocks files for the time of do, and locks them again however
// it ended.
func WithBootFiles(files BootFiles, do func() error) error {
	if err := files.Unlock(); err != nil {
		return WrapBoot("make the boot partition writable", err)
	}
	return errors.Join(do(), WrapBoot("make the boot partition read-only", files.Lock()))
}

// OtherSlot returns the slot that slot is not; empty for what is none.
func OtherSlot(slot string) string {
	switch slot {
	case "A":
		return "B"
	case "B":
		return "A"
	}
	return ""
}

// CheckSlot refuses what is not the name of a slot.
func CheckSlot(doing, slot string) error {
	if OtherSlot(slot) == "" {
		return &BootError{Doing: doing, Why: `the slot is "` + slot + `"; it has to be A or B`, Err: ErrInvalid}
	}
	return nil
}

// CheckSlots refuses two names of which one is not that of a slot.
func CheckSlots(doing, running, slot string) error {
	if err := CheckSlot(doing, running); err != nil {
		return err
	}
	return CheckSlot(doing, slot)
}
