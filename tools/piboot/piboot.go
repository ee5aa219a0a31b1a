// Package piboot plays the part of the Raspberry Pi's boot firmware that deals
// with files, so that QEMU, which has no such firmware, boots a card image the
// way a Raspberry Pi 3A+ would: the same config.txt, prefix rules and one-shot
// tryboot flag lead to the same kernel, initramfs, device tree and command
// line.
//
// # Rules and their sources
//
// From the Raspberry Pi documentation (computers/config_txt and
// computers/raspberry-pi):
//   - config.txt: one property=value a line, # comments, 98 characters a line
//     (78 in older firmware); conditional filters; include, which bootcode.bin
//     does not follow, so it cannot select the start file.
//   - start_x, start_debug, start_file and fixup_file select the firmware;
//     gpu_mem=16 selects the cut-down one. gpu_mem_512 overrides gpu_mem on a
//     board of 512 MB.
//   - kernel is kernel7.img on a Pi 3 unless arm_64bit=1 makes it kernel8.img;
//     a known kernel name sets arm_64bit by itself.
//   - os_prefix goes in front of kernel, initramfs, command line, device tree
//     and overlays, but is dropped without a word unless both the kernel and
//     the device tree exist under it. Overlays come from under it only if
//     {os_prefix}{overlay_prefix}README exists. A path that starts with a
//     slash takes no prefix.
//   - tryboot: with the one-shot flag set, tryboot.txt is read in the place of
//     config.txt, unless autoboot.txt says tryboot_a_b=1. The flag is supported
//     on all models and is cleared before the firmware starts.
//   - the LED flash codes that the errors mention.
//
// From messages that the firmware itself contains (start_cd.elf and
// bootcode.bin of 2026): the device tree name is made of bcm%d-rpi-%s.dtb and
// the model, 3-a-plus among them; an initramfs that cannot be loaded is given
// up while the boot goes on; initramfs and include take names of at most 64
// characters; both bootcode.bin and start_cd.elf know tryboot.txt.
//
// From issues answered by the firmware's authors: a plus model without its own
// device tree gets the next older one (raspberrypi/firmware 943); a command
// line file missing under the prefix is looked for without it
// (raspberrypi/linux 7319, the log of a newer board).
//
// Not documented anywhere, and decided here: with the flag set and no
// tryboot.txt, config.txt is read. An unknown filter hides its section.
package piboot

import (
	"fmt"
	"io/fs"
)

// Choice is what the firmware would load. Paths are relative to the boot
// partition, slash-separated and clean.
type Choice struct {
	// Start and Fixup are the VideoCore firmware and its link file. Fixup is
	// empty if it is missing.
	Start, Fixup string
	// ConfigFile is config.txt, tryboot.txt, or empty if there is none.
	ConfigFile string
	// Settings is what that file says on this board.
	Settings Settings
	// OSPrefix is the prefix in effect. It is empty if none was asked for or
	// if it was dropped.
	OSPrefix string
	// PrefixDropped says that the configured prefix was not viable, and
	// DropReason what was missing under it.
	PrefixDropped bool
	DropReason    string
	// Kernel is the kernel image, raw or gzip. Arm64 is the mode that the
	// processor starts in.
	Kernel string
	Arm64  bool
	// Initramfs lists the files that are concatenated in memory.
	Initramfs []string
	// DeviceTree is the base device tree, and Overlays what is applied to it,
	// in order.
	DeviceTree string
	Overlays   []string
	// CmdlineFile is empty if the file is missing. Cmdline is its first line.
	CmdlineFile string
	Cmdline     string
	// Warnings says in plain words what is likely not meant so.
	Warnings []string
}

// NoBootError says that the firmware would come to a halt.
type NoBootError struct {
	// Missing is the file that the firmware needs and does not find.
	Missing string
	// Seen is what a user would see on a real board.
	Seen string
	// Hint says more about the cause; it may be empty.
	Hint string
}

func (e *NoBootError) Error() string {
	s := fmt.Sprintf("piboot: the board would not boot: %s is missing on the boot partition; a real board shows: %s", e.Missing, e.Seen)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// What a board shows, from the documentation's table of LED flash codes.
const (
	seenNothing  = "the green LED stays dark, the boot ROM tries its other boot modes"
	seenNoStart  = "four short flashes of the green LED"
	seenNoKernel = "seven short flashes of the green LED"
	seenNoTree   = "a screen that stays on the rainbow picture, no word from the kernel"
)

// Decide gives what the firmware of a Raspberry Pi 3A+ would load from the
// boot partition boot. tryboot is the one-shot flag, as OneShot tracks it.
//
// A *NoBootError says that the board would hang. Other errors are about
// reading boot, or about paths that leave it.
func Decide(boot fs.FS, tryboot bool) (Choice, error) {
	d := decision{boot: boot, board: Pi3APlus(), tryboot: tryboot}
	for _, step := range []func() error{
		d.chooseConfig, d.chooseFirmware, d.chooseSystem, d.chooseInitramfs, d.chooseOverlays, d.chooseCmdline,
	} {
		if err := step(); err != nil {
			return Choice{}, err
		}
	}
	return d.Choice, nil
}

// decision is one run of Decide.
type decision struct {
	Choice
	boot    fs.FS
	board   Board
	tryboot bool
}

func (d *decision) warn(format string, args ...any) {
	d.Warnings = append(d.Warnings, fmt.Sprintf(format, args...))
}
