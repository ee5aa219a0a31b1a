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

// bootError wraps an error that is not nil.
func bootError(doing string, err error) error {
	if err == nil {
		return nil
	}
	return &BootError{Doing: doing, Err: err}
}

// WithBootFiles unlocks files for the time of do, and locks them again however
// it ended.
func WithBootFiles(files BootFiles, do func() error) error {
	if err := files.Unlock(); err != nil {
		return bootError("make the boot partition writable", err)
	}
	return errors.Join(do(), bootError("make the boot partition read-only", files.Lock()))
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
