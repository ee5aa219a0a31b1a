package x86

import (
	"errors"
	"strings"

	"machined/hal"
)

// entry is an entry of ours on the boot partition.
type entry struct {
	EntryName
	EntryText
	path string
	slot string
	text string
}

// good reports whether the entry boots without end: a slot that was committed.
func (e entry) good() bool { return e.Enabled && !e.Counted }

// trying reports whether the loader boots the entry a number of times.
func (e entry) trying() bool { return e.Enabled && e.Counted && e.Left > 0 }

// entries reads the entries of both slots. damaged names one with a text that
// is none of ours, such as one that was being written when the power went. They
// are known by their names; all others are somebody else's.
func (b *Bootloader) entries() (list []entry, damaged []entry, err error) {
	files, err := b.Files.List(Entries)
	if err != nil && !errors.Is(err, hal.ErrNotFound) {
		return nil, nil, hal.WrapBoot("list "+Entries, err)
	}
	for _, f := range files {
		name, nameErr := ParseEntryName(strings.ToLower(f.Name))
		slot := slotOf(name.Name)
		if f.Dir || nameErr != nil || slot == "" {
			continue
		}
		e := entry{EntryName: name, path: Entries + "/" + f.Name, slot: slot}
		text, err := b.Files.Read(e.path)
		if err != nil && !errors.Is(err, hal.ErrInvalid) {
			return nil, nil, hal.WrapBoot("read "+e.path, err)
		}
		e.text = string(text)
		if e.EntryText, err = ParseEntry(text); err != nil {
			damaged = append(damaged, e)
			continue
		}
		list = append(list, e)
	}
	return list, damaged, nil
}

// slotOf returns the slot of an entry of that name; empty if it is not ours.
func slotOf(name string) string {
	for _, slot := range [2]string{"A", "B"} {
		if name == SlotEntry(slot).Name {
			return slot
		}
	}
	return ""
}

// of returns those of one slot that have a property; nil for all.
func of(list []entry, slot string, has func(entry) bool) []entry {
	var found []entry
	for _, e := range list {
		if e.slot == slot && (has == nil || has(e)) {
			found = append(found, e)
		}
	}
	return found
}

// first returns the entry that the loader prefers among those with a property,
// or among all for nil: see EntryText.
func first(list []entry, has func(entry) bool) (entry, bool) {
	var best entry
	for _, e := range list {
		if e.Enabled && (has == nil || has(e)) && (best.path == "" || before(e, best)) {
			best = e
		}
	}
	return best, best.path != ""
}

func before(a, b entry) bool {
	if aEnd, bEnd := a.Counted && a.Left == 0, b.Counted && b.Left == 0; aEnd != bEnd {
		return bEnd
	}
	if a.Generation != b.Generation {
		return a.Generation > b.Generation
	}
	return a.Name > b.Name // names differ in their letter alone
}

// next returns the generation after all others.
func next(list []entry) int {
	n := 0
	for _, e := range list {
		n = max(n, e.Generation)
	}
	return n + 1
}

// change overwrites a part of an entry's first sector, and compares.
func (b *Bootloader) change(e entry, at int, with string) error {
	if err := b.Files.Overwrite(e.path, int64(at), []byte(with)); err != nil {
		return hal.WrapBoot("change "+e.path, err)
	}
	return hal.CompareBootFile(b.Files, e.path, e.text[:at]+with+e.text[at+len(with):])
}

// disable makes the loader ignore an entry.
func (b *Bootloader) disable(e entry) error { return b.change(e, e.linux, "#") }

// prefer makes an entry the first, unless its slot's is already.
func (b *Bootloader) prefer(e entry, list []entry) error {
	if best, _ := first(list, nil); best.slot == e.slot {
		return nil
	}
	return b.change(e, e.key, keyOf(next(list)))
}

// remove removes entries, disabled: the next one may get their clusters, and with
// a power cut their content.
func (b *Bootloader) remove(list []entry) error {
	for _, e := range list {
		if e.Enabled {
			if err := b.disable(e); err != nil {
				return err
			}
		}
		if err := b.Files.Remove(e.path); err != nil {
			return hal.WrapBoot("remove "+e.path, err)
		}
	}
	return nil
}

// write makes an entry for a slot, which is whole. The file is made disabled,
// is flushed and read back, and only then one byte enables it: on FAT neither a
// new file nor a rename is done whole or not at all. No entry of that name may
// be there.
func (b *Bootloader) write(name EntryName, slot string, generation int) error {
	if generation > lastGeneration {
		return hal.RefuseBoot("write an entry for slot "+slot, "the generations are used up; write a new image to the disk")
	}
	m, _, err := hal.ReadSlot(b.Files, slot)
	if err != nil {
		return err
	}
	line, err := b.Files.Read(slot + "/" + hal.CommandLineName)
	if err != nil {
		return hal.WrapBoot("read the command line of slot "+slot, err)
	}
	text := Entry(slot, generation, m.Version, strings.TrimSpace(string(line)))
	e := entry{path: Entries + "/" + name.String(), text: "#" + text[1:]}
	if e.EntryText, err = ParseEntry([]byte(e.text)); err != nil {
		return hal.WrapBoot("write "+e.path, err)
	}
	if err := hal.PutBootFile(b.Files, e.path, e.text); err != nil {
		return err
	}
	return b.change(e, e.linux, text[:1])
}
