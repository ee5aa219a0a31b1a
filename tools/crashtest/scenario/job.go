package scenario

import (
	"fmt"
	"strings"
)

// Mode is how a guest works on a disk.
type Mode string

const (
	// Real is as a node does it.
	Real Mode = "real"
	// NoFlush has the kernel write to the disk when it likes.
	NoFlush Mode = "no-flush"
	// NoOrder has what chooses the slot on the disk before the slot's files.
	NoOrder Mode = "no-order"
	// Upgrade is a repair and an upgrade of what a power cut has left. Job.Name is
	// of no scenario then.
	Upgrade Mode = "upgrade"
)

// Job is what a guest does with a disk.
type Job struct {
	Backend, Name string
	Mode          Mode
}

// Serial returns the serial number of the disk, by which the guest knows the
// job. Virtio has room for 20 characters.
func (j Job) Serial() string { return j.Backend + "." + j.Name + "." + string(j.Mode) }

// ParseSerial reads what Serial returns.
func ParseSerial(serial string) (Job, error) {
	parts := strings.Split(strings.TrimSpace(serial), ".")
	if len(parts) != 3 {
		return Job{}, fmt.Errorf("a disk has the serial number %q; want backend.name.mode", serial)
	}
	return Job{Backend: parts[0], Name: parts[1], Mode: Mode(parts[2])}, nil
}

// The disk has an MBR, the boot partition first, and then one for notes. Offsets
// and sizes are in bytes.
const (
	BootOffset = 1 << 20
	NotesBytes = 1 << 20
)

// The last lines of a guest's console for a job begin with these.
const (
	Done   = "GUEST done "
	Failed = "GUEST failed "
)
