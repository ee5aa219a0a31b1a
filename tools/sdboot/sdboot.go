// Package sdboot plays the part of systemd-boot that chooses an entry, so that a
// test knows what a UEFI board would boot from the files that a power cut has
// left.
//
// # Rules and their sources
//
// From loader.conf(5), systemd-boot(7) and the Boot Loader Specification (UAPI
// group 1), and, where those are silent, from what systemd-boot 252 does:
//   - An entry is a file loader/entries/*.conf, whose name does not begin with
//     "auto-" nor a dot. One that cannot be read, one without linux or efi, or
//     whose linux is not there, is passed over. A later line replaces an earlier one of the same key,
//     initrd and options excepted, which add up.
//   - Its name may end in +LEFT or +LEFT-DONE (Automatic Boot Assessment). The
//     file is renamed before it is started, with one less left and one more
//     done; with none left it stays at none, and is started all the same.
//   - Order: entries with none left are behind all others; with a sort key
//     before those without; then the sort key and the machine id, ascending by
//     character; then the version, descending; then the name of the file with
//     its counter, descending; then the one with more boots left, then the one
//     with fewer done. Versions compare by UAPI group 10.
//   - Chosen is what the EFI variable LoaderEntryOneShot names, or
//     LoaderEntryDefault, or default of loader.conf, or else the first. The three
//     are patterns, compared without regard to case with the file's whole name;
//     the first entry in the order that matches is taken, boots left or not.
//   - @saved stands for the entry that was booted last, anything else that
//     begins with @ is ignored in loader.conf.
//
// Not modelled: entries that the loader makes up by itself (other systems, the
// firmware's setup), unified kernel images, a second partition with entries, and
// the menu.
package sdboot

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// ErrNothing says that there is no entry that could be booted.
var ErrNothing = errors.New("sdboot: loader/entries has no entry that can be booted")

// Variables are the EFI variables that have a say, without the Loader prefix.
type Variables struct {
	EntryOneShot, EntryDefault, EntryLastBooted string
}

// Entry is an entry as the loader has it.
type Entry struct {
	File                        string // in loader/entries
	SortKey, MachineID, Version string
	Linux                       string // relative to the partition, without a slash
	Initrd                      []string
	Options                     string
	Counted                     bool
	Left, Done                  int // boots, if counted

	name string // before the counter
}

const (
	dir    = "loader/entries"
	suffix = ".conf"
)

// Renamed returns the name that the loader gives the file before it starts the
// entry. It is the file's own if the entry is not counted.
func (e Entry) Renamed() string {
	if !e.Counted {
		return e.File
	}
	return e.name + "+" + strconv.Itoa(max(0, e.Left-1)) + "-" + strconv.Itoa(e.Done+1) + suffix
}

// Select returns the entry that the loader boots, with no one at the keyboard.
func Select(boot fs.FS, v Variables) (Entry, error) {
	entries, err := Entries(boot)
	if err != nil {
		return Entry{}, err
	}
	if len(entries) == 0 {
		return Entry{}, ErrNothing
	}
	conf, _ := read(boot, "loader/loader.conf") // as if it were empty if it cannot be read
	pattern := ""
	for _, l := range conf {
		if l.key == "default" && (!strings.HasPrefix(l.value, "@") || strings.EqualFold(l.value, "@saved")) {
			pattern = l.value
		}
	}
	for _, p := range []string{v.EntryOneShot, v.saved(v.EntryDefault), v.saved(pattern)} {
		for _, e := range entries {
			if p != "" && matches(strings.ToLower(p), strings.ToLower(e.File)) {
				return e, nil
			}
		}
	}
	return entries[0], nil
}

func (v Variables) saved(pattern string) string {
	if strings.EqualFold(pattern, "@saved") {
		return v.EntryLastBooted
	}
	return pattern
}

// Entries returns the entries in the loader's order.
func Entries(boot fs.FS) ([]Entry, error) {
	files, err := fs.ReadDir(boot, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("sdboot: listing the entries: %w", err)
	}
	var entries []Entry
	for _, f := range files {
		name := f.Name()
		if f.IsDir() || name[0] == '.' || strings.HasPrefix(name, "auto-") || !strings.HasSuffix(strings.ToLower(name), suffix) {
			continue
		}
		lines, err := read(boot, dir+"/"+name)
		if err != nil {
			continue // a name whose clusters a power cut has left free, for one
		}
		e := entryOf(name, lines)
		// What it names is opened when the entry is read; an initrd is not.
		if info, err := fs.Stat(boot, e.Linux); e.Linux == "" || err != nil || !info.Mode().IsRegular() {
			continue
		}
		entries = append(entries, e)
	}
	slices.SortStableFunc(entries, compare)
	return entries, nil
}

func entryOf(file string, lines []line) Entry {
	e := Entry{File: file}
	e.count()
	for _, l := range lines {
		switch l.key {
		case "linux", "efi":
			e.Linux = path(l.value)
		case "initrd":
			e.Initrd = append(e.Initrd, path(l.value))
		case "options":
			e.Options = strings.TrimPrefix(e.Options+" "+l.value, " ")
		case "sort-key":
			e.SortKey = l.value
		case "machine-id":
			e.MachineID = l.value
		case "version":
			e.Version = l.value
		}
	}
	return e
}

func path(value string) string {
	return strings.TrimPrefix(strings.ReplaceAll(value, `\`, "/"), "/")
}

// count reads the counter in the file's name, if it ends in one.
func (e *Entry) count() {
	base := strings.TrimSuffix(e.File, suffix)
	i := strings.LastIndexByte(base, '+')
	if i < 0 || base == e.File {
		return
	}
	left, done, two := strings.Cut(base[i+1:], "-")
	l, err := strconv.ParseUint(left, 10, 31)
	var d uint64
	if err == nil && two {
		d, err = strconv.ParseUint(done, 10, 31)
	}
	if err == nil {
		e.Counted, e.Left, e.Done, e.name = true, int(l), int(d), base[:i]
	}
}

// line is one of a file of the loader.
type line struct{ key, value string }

// read takes a file apart: a key, white space, a value, which may be in quotes.
func read(boot fs.FS, name string) ([]line, error) {
	text, err := fs.ReadFile(boot, name)
	if err != nil {
		return nil, fmt.Errorf("sdboot: reading %s: %w", name, err)
	}
	var lines []line
	for _, l := range strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' || r == '\r' }) {
		l = strings.Trim(l, " \t")
		i := strings.IndexAny(l, " \t")
		if i < 0 || l[0] == '#' {
			continue
		}
		value := strings.TrimLeft(l[i:], " \t")
		if len(value) > 1 && value[0] == '"' && strings.HasSuffix(value, `"`) {
			value = value[1 : len(value)-1]
		}
		lines = append(lines, line{l[:i], value})
	}
	return lines, nil
}
