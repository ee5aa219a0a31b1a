// Package rpi holds the facts of the Raspberry Pi's boot firmware that machined
// rests on: how config.txt names the slot, and how a trial boot is asked for
// (Raspberry Pi documentation, "config.txt" and "tryboot").
package rpi

import (
	"bytes"

	"machined/hal"
)

const (
	// ConfigFile is what the firmware reads of the boot partition.
	ConfigFile = "config.txt"
	// TrybootFile is what it reads instead on a trial boot.
	TrybootFile = "tryboot.txt"
	// TrybootArgument is the argument of a restart that makes the next boot,
	// and only that, a trial: partition 0, which is the default one, and the
	// one-shot flag.
	TrybootArgument = "0 tryboot"
)

const (
	// ErrNoSlot says that config.txt names no slot.
	ErrNoSlot hal.Error = "config.txt names no slot; its first line has to be os_prefix=A/ or another slot's letter"
	// ErrSlotTwice says that a later line changes what the first one said.
	ErrSlotTwice hal.Error = "config.txt has os_prefix more than once; remove all but the first"
	// ErrSlotFiltered says that os_prefix does not hold on every boot.
	ErrSlotFiltered hal.Error = "os_prefix of config.txt stands below a filter; move it to the first line"
	// ErrSlotFar says that a flip would not be a write to the first sector.
	ErrSlotFar hal.Error = "os_prefix of config.txt is beyond the first 512 bytes; move it to the first line"
)

const (
	// sector is the size in bytes of what a card writes whole or not at all. A
	// file of a FAT volume begins at a sector.
	sector = 512
	prefix = "os_prefix="
)

// Config returns config.txt for the slot of that letter, with the lines that
// every board has and then the board's own. The letter is in the first line,
// so that it lies in the file's first sector and a flip changes one byte of one
// sector. The line stands before any filter and so holds for every model.
func Config(letter byte, own ...string) string {
	text := prefix + string(rune(letter)) + "/\n" +
		"# The line above names the slot and is machined's. Yours go to the end.\n" +
		"arm_64bit=1\n" +
		"kernel=kernel8.img\n" +
		"initramfs initramfs.img followkernel\n" +
		"cmdline=cmdline.txt\n" +
		"gpu_mem=16\n"
	for _, line := range own {
		text += line + "\n"
	}
	return text
}

// Slot is the slot that a config.txt names.
type Slot struct {
	Letter byte // A to Z
	Offset int  // of the letter, in bytes from the beginning of the file
}

// FindSlot returns the slot that config names. It refuses a file in which a
// write of the letter alone would not choose the slot of every boot. Files
// that config includes are not looked at.
func FindSlot(config []byte) (Slot, error) {
	var found Slot
	filtered := false
	for at := 0; at < len(config); {
		end := at + lineLength(config[at:])
		line := bytes.Trim(config[at:end], " \t\r\n")
		switch {
		case len(line) > 0 && line[0] == '[':
			filtered = !bytes.EqualFold(line, []byte("[all]"))
		case bytes.HasPrefix(line, []byte(prefix)):
			letter, ok := letterOf(line[len(prefix):])
			offset := at + bytes.Index(config[at:end], []byte(prefix)) + len(prefix)
			switch {
			case found.Letter != 0:
				return Slot{}, ErrSlotTwice
			case !ok:
				return Slot{}, ErrNoSlot
			case filtered:
				return Slot{}, ErrSlotFiltered
			case offset >= sector:
				return Slot{}, ErrSlotFar
			}
			found = Slot{Letter: letter, Offset: offset}
		}
		at = end
	}
	if found.Letter == 0 {
		return Slot{}, ErrNoSlot
	}
	return found, nil
}

// lineLength counts the bytes of the first line of text, its end included.
func lineLength(text []byte) int {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return i + 1
	}
	return len(text)
}

// letterOf returns the letter of a slot's directory, such as "A/".
func letterOf(dir []byte) (byte, bool) {
	if len(dir) != 2 || dir[1] != '/' || dir[0] < 'A' || dir[0] > 'Z' {
		return 0, false
	}
	return dir[0], true
}
