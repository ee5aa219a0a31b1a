// Package board is the table of the boards that machined runs on, and tells
// from the device tree or the firmware which of them this is.
package board

// Firmware is the family of boot firmware, which decides how slots are chosen.
type Firmware uint8

const (
	// RaspberryPi firmware reads config.txt from the first FAT partition of an
	// MBR disk; os_prefix names the slot.
	RaspberryPi Firmware = iota + 1
	// UEFI firmware starts systemd-boot from the EFI system partition of a GPT
	// disk; a loader entry names the slot.
	UEFI
)

// Board is one row of the table.
type Board struct {
	Name     string // as in BOARDS.md and on every command line
	Arch     string // GOARCH of its kernel and programs
	Firmware Firmware
	// Compatible is the device tree's root compatible string that identifies
	// the board (Devicetree Specification 2.3.1); empty without a device tree.
	Compatible string
	// Console holds the kernel's console arguments.
	Console string
	// BootDisk is the prefix of the kernel's name of the disk that the
	// firmware boots from, where that is fixed.
	BootDisk string
}

// Table returns the boards in the order of their detection.
func Table() []Board {
	return []Board{
		{
			Name: "rpi-3a-plus", Arch: "arm64", Firmware: RaspberryPi,
			Compatible: "raspberrypi,3-model-a-plus",
			Console:    "console=tty1 console=ttyAMA0,115200", BootDisk: "mmcblk0",
		},
		{
			Name: "arm64-mbr", Arch: "arm64", Firmware: RaspberryPi,
			Compatible: "linux,dummy-virt", Console: "console=ttyAMA0,115200",
		},
		{Name: "x86_64-uefi", Arch: "amd64", Firmware: UEFI, Console: "console=tty0 console=ttyS0,115200"},
		{Name: "arm64-uefi", Arch: "arm64", Firmware: UEFI, Console: "console=tty0 console=ttyAMA0,115200"},
	}
}

// Names lists the boards for messages, separated by commas.
func Names() string {
	names := ""
	for i, b := range Table() {
		if i > 0 {
			names += ", "
		}
		names += b.Name
	}
	return names
}

// ByName returns the board of that name.
func ByName(name string) (Board, bool) {
	for _, b := range Table() {
		if b.Name == name {
			return b, true
		}
	}
	return Board{}, false
}

// Facts are what a running kernel tells about the machine.
type Facts struct {
	Arch string // GOARCH
	// Compatible is /proc/device-tree/compatible as it is: strings that each
	// end in a zero byte, the most specific first. Empty without a device tree.
	Compatible []byte
	// EFI says that the firmware is UEFI (/sys/firmware/efi exists). It wins
	// over the device tree, which UEFI may pass along.
	EFI bool
}

// Detect returns the board that the facts describe.
func Detect(f Facts) (Board, bool) {
	for _, b := range Table() {
		if b.Arch != f.Arch || (b.Firmware == UEFI) != f.EFI {
			continue
		}
		if b.Compatible == "" || contains(f.Compatible, b.Compatible) {
			return b, true
		}
	}
	return Board{}, false
}

// contains reports whether the list of zero-terminated strings holds want.
func contains(list []byte, want string) bool {
	start := 0
	for i, c := range list {
		if c != 0 {
			continue
		}
		if string(list[start:i]) == want {
			return true
		}
		start = i + 1
	}
	return false
}
