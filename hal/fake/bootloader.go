package fake

import (
	"errors"
	"slices"

	"machined/hal"
)

// Bootloader is a simulated hal.Bootloader with a firmware that keeps to it. It
// has no files: a test sets what is there, and reads what was done.
type Bootloader struct {
	Faults
	// BootState is what State returns. Its zero value becomes two good slots of
	// version v1, of which A is the default, at the first call.
	hal.BootState
	// Argument is what Try returns; without it the firmware makes no trial.
	Argument string
	// Tries is how many boots a trial has; 0 means 1.
	Tries int
	// Space is what a slot can hold, in bytes, with 64 KiB for each file; 0 means
	// 256 MiB.
	Space int64
	// Sum is SHA-256. Without it, Finish compares sizes alone.
	Sum func(data []byte) [32]byte
	// Content is what was staged last, Data what each of its files got.
	Content hal.SlotContent
	Data    [][]byte
	// Recovered counts the calls of Recover.
	Recovered int
}

// slot returns a slot by its name.
func (b *Bootloader) slot(name string) (*hal.Slot, error) {
	if b.Slots[0].Name == "" {
		b.Slots = [2]hal.Slot{{Name: "A", Version: "v1", State: hal.SlotGood}, {Name: "B", Version: "v1", State: hal.SlotGood}}
		b.Default = "A"
	}
	for i := range b.Slots {
		if b.Slots[i].Name == name {
			return &b.Slots[i], nil
		}
	}
	return nil, hal.ErrInvalid
}

// begin looks up both slots at the beginning of a call.
func (b *Bootloader) begin(method, running, slot string) (r, s *hal.Slot, err error) {
	if err := b.failing(method); err != nil {
		return nil, nil, err
	}
	if r, err = b.slot(running); err == nil {
		s, err = b.slot(slot)
	}
	return r, s, err
}

// Boot returns the slot that the firmware boots after a restart with that
// argument.
func (b *Bootloader) Boot(argument string) string {
	if _, err := b.slot("A"); err != nil || b.Trial == "" {
		return b.Default
	}
	s, _ := b.slot(b.Trial)
	if b.Argument != "" {
		// The flag holds for one boot, and what was on trial is not again.
		b.Trial, s.Tries = "", 0
		if argument == b.Argument {
			return s.Name
		}
		return b.Default
	}
	if s.Tries--; s.Tries <= 0 {
		b.Trial = ""
	}
	return s.Name
}

// State implements hal.Bootloader.
func (b *Bootloader) State(running string) (hal.BootState, error) {
	if _, _, err := b.begin("State", running, running); err != nil {
		return hal.BootState{}, err
	}
	return b.BootState, nil
}

// Recover implements hal.Bootloader.
func (b *Bootloader) Recover(running string) error {
	_, other, err := b.begin("Recover", running, hal.OtherSlot(running))
	if err != nil {
		return err
	}
	b.Recovered++
	if other.State == hal.SlotTrial && b.Trial == "" || b.Argument != "" && b.Trial == other.Name {
		b.Trial, other.State, other.Tries = "", hal.SlotFailed, 0
	}
	return nil
}

// Try implements hal.Bootloader.
func (b *Bootloader) Try(running, slot string) (string, error) {
	r, s, err := b.begin("Try", running, slot)
	if err != nil {
		return "", err
	}
	if running == slot || s.State == hal.SlotEmpty || r.State != hal.SlotGood || b.Pinned != "" {
		return "", hal.ErrInvalid
	}
	s.State, s.Tries, b.Trial, b.Default = hal.SlotTrial, max(b.Tries, 1), slot, running
	return b.Argument, nil
}

// Commit implements hal.Bootloader.
func (b *Bootloader) Commit(slot string) error {
	_, s, err := b.begin("Commit", slot, slot)
	if err != nil {
		return err
	}
	if s.State == hal.SlotEmpty {
		return hal.ErrInvalid
	}
	s.State, s.Tries, b.Trial, b.Default = hal.SlotGood, 0, "", slot
	return nil
}

// Abandon implements hal.Bootloader.
func (b *Bootloader) Abandon(running, slot string) error {
	_, s, err := b.begin("Abandon", running, slot)
	if err != nil {
		return err
	}
	other, _ := b.slot(hal.OtherSlot(slot))
	if other.State == hal.SlotEmpty {
		return hal.ErrInvalid
	}
	if s.State == hal.SlotTrial {
		s.State, s.Tries = hal.SlotFailed, 0
	}
	b.Trial, b.Default = "", other.Name
	return nil
}

// Stage implements hal.Bootloader.
func (b *Bootloader) Stage(running string, content hal.SlotContent) (hal.SlotWriter, error) {
	r, other, err := b.begin("Stage", running, hal.OtherSlot(running))
	if err != nil {
		return nil, err
	}
	if r.State != hal.SlotGood {
		return nil, hal.ErrInvalid
	}
	if err := hal.CheckSlotContent(&BootFiles{Size: b.Space}, other.Name, content); err != nil {
		return nil, err
	}
	*other = hal.Slot{Name: other.Name}
	b.Trial, b.Default = "", running
	b.Content, b.Data = content, make([][]byte, len(content.Files))
	return &slotWriter{loader: b, slot: other, open: -1}, nil
}

// slotWriter writes a slot into memory.
type slotWriter struct {
	loader  *Bootloader
	slot    *hal.Slot
	written []int
	open    int // the file being written; -1 for none
	ended   bool
}

// Create implements hal.SlotWriter.
func (w *slotWriter) Create(path string) (hal.BootWriter, error) {
	if err := w.loader.failing("Create"); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(w.loader.Content.Files, func(f hal.SlotFile) bool { return f.Path == path })
	if i < 0 || slices.Contains(w.written, i) || w.open >= 0 || w.ended {
		return nil, hal.ErrInvalid
	}
	w.written, w.open = append(w.written, i), i
	return slotFile{w, i}, nil
}

// slotFile is a file being written.
type slotFile struct {
	writer *slotWriter
	index  int
}

// Write implements hal.BootWriter.
func (f slotFile) Write(data []byte) (int, error) {
	b := f.writer.loader
	if err := b.failing("Write"); err != nil {
		return 0, err
	}
	if f.writer.open != f.index || int64(len(b.Data[f.index])+len(data)) > b.Content.Files[f.index].Size {
		return 0, hal.ErrInvalid
	}
	b.Data[f.index] = append(b.Data[f.index], data...)
	return len(data), nil
}

// Close implements hal.BootWriter.
func (f slotFile) Close() error {
	b := f.writer.loader
	if f.writer.open != f.index {
		return hal.ErrInvalid
	}
	f.writer.open = -1
	err := b.failing("Close")
	if err == nil && int64(len(b.Data[f.index])) != b.Content.Files[f.index].Size {
		err = hal.ErrInvalid
	}
	if err != nil {
		// It may be created again.
		f.writer.written = f.writer.written[:len(f.writer.written)-1]
		b.Data[f.index] = nil
	}
	return err
}

// Finish implements hal.SlotWriter.
func (w *slotWriter) Finish() error {
	if w.ended {
		return hal.ErrInvalid
	}
	w.ended = true
	if err := w.loader.failing("Finish"); err != nil {
		return err
	}
	if w.open >= 0 || len(w.written) != len(w.loader.Content.Files) {
		return hal.ErrInvalid
	}
	for i, f := range w.loader.Content.Files {
		if w.loader.Sum != nil && w.loader.Sum(w.loader.Data[i]) != f.SHA256 {
			return hal.ErrReadBack
		}
	}
	w.slot.Version, w.slot.State = w.loader.Content.Version, hal.SlotStaged
	return nil
}

// Abort implements hal.SlotWriter.
func (w *slotWriter) Abort() error {
	w.ended = true
	return errors.Join(w.loader.failing("Abort"))
}

var _ hal.Bootloader = (*Bootloader)(nil)
