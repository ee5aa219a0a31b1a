package x86

import (
	"strconv"
	"strings"

	"machined/hal"
)

// ErrEntry says that a file is no entry of ours.
const ErrEntry hal.Error = "not an entry of machined; want linux, and sort-key machined-GENERATION, within the first 512 bytes"

const (
	// sector is the size in bytes of what a disk writes whole or not at all. A
	// file of a FAT volume begins at a sector.
	sector = 512
	// keyPrefix begins the sort key of our entries. Eight digits follow.
	keyPrefix = "machined-"
	keyDigits = 8
	// lastGeneration is the highest generation. At one a second it lasts three
	// years; an upgrade takes one.
	lastGeneration = 99999999
)

// EntryText is what machined reads and changes of an entry's text.
//
// systemd-boot (252 and later) orders entries by: those with no tries left
// behind all others; the sort key, ascending by character; the machine id; the
// version, descending; the file's name, descending. The version does not tell
// which slot is newer: a rollback goes to a lower one, two builds can have the
// same, and a git hash means nothing. So the key has a generation, which each
// upgrade raises, written as its distance from the last one: the highest sorts
// first. Both linux and sort-key are in the first sector, and do not change
// their length, so that a change of either is done whole or not at all.
type EntryText struct {
	// Enabled says that the entry can be booted. In one that is not, the first
	// letter of its linux line is a #, and the loader ignores an entry that
	// names nothing to boot.
	Enabled bool
	// Generation is 0 to 99999999.
	Generation int

	linux, key int // places of the letter and of the digits, in bytes
}

// Entry returns the text of the entry of a slot: type 1 of the Boot Loader
// Specification. A new image has generation 1 for the slot that it boots, and
// 0 for the other.
func Entry(slot string, generation int, version, options string) string {
	return "linux /" + slot + "/linux.efi\n" +
		"sort-key " + keyPrefix + keyOf(generation) + "\n" +
		"initrd /" + slot + "/initramfs.img\n" +
		"title machined " + slot + "\n" +
		"version " + version + "\n" +
		"options " + options + "\n"
}

// keyOf writes a generation so that the highest is the first by character.
func keyOf(generation int) string {
	digits := strconv.Itoa(lastGeneration - min(max(generation, 0), lastGeneration))
	return "00000000"[len(digits):] + digits
}

// ParseEntry reads the text of an entry of ours. What else is in it, such as
// the user's own lines, is left alone.
func ParseEntry(text []byte) (EntryText, error) {
	e := EntryText{linux: -1, key: -1}
	for at := 0; at < len(text); {
		end := at + lineLength(text[at:])
		line := string(text[at:end])
		trimmed := strings.TrimLeft(line, " \t")
		start := at + len(line) - len(trimmed)
		key, value := keyValue(trimmed)
		switch key {
		case "linux", "#inux":
			if e.linux >= 0 {
				return EntryText{}, ErrEntry // which of them is meant?
			}
			e.linux, e.Enabled = start, key == "linux"
		case "efi", "uki":
			return EntryText{}, ErrEntry
		case "sort-key":
			digits, ok := strings.CutPrefix(value, keyPrefix)
			n, isNumber := number(digits)
			if !ok || !isNumber || len(digits) != keyDigits || e.key >= 0 {
				return EntryText{}, ErrEntry
			}
			e.Generation = lastGeneration - n
			e.key = start + strings.Index(trimmed, keyPrefix) + len(keyPrefix)
		}
		at = end
	}
	if e.linux < 0 || e.linux >= sector || e.key < 0 || e.key+keyDigits > sector {
		return EntryText{}, ErrEntry
	}
	return e, nil
}

// lineLength counts the bytes of the first line, its end included.
func lineLength(text []byte) int {
	for i, c := range text {
		if c == '\n' {
			return i + 1
		}
	}
	return len(text)
}

// keyValue takes a line apart as the loader does.
func keyValue(line string) (key, value string) {
	line = strings.TrimRight(line, " \t\r\n")
	i := strings.IndexAny(line, " \t")
	if i < 0 {
		return "", ""
	}
	value = strings.TrimLeft(line[i:], " \t")
	if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
	}
	return line[:i], value
}

// FindDefault returns the default that a loader.conf sets; empty for none. The
// last line counts. The loader passes over what begins with @ but @saved.
func FindDefault(loader []byte) string {
	found := ""
	for at := 0; at < len(loader); {
		end := at + lineLength(loader[at:])
		key, value := keyValue(strings.TrimLeft(string(loader[at:end]), " \t"))
		if key == "default" && (!strings.HasPrefix(value, "@") || strings.EqualFold(value, "@saved")) {
			found = value
		}
		at = end
	}
	return found
}
