package block

import (
	"strconv"

	"machined/hal"
)

// Names of the volumes that a node makes for itself.
const (
	State     = "STATE"
	Ephemeral = "EPHEMERAL"
)

// Action is what to do with a disk.
type Action uint8

const (
	// Skip: all volumes are there.
	Skip Action = iota
	// Complete: make those that are missing, in free space.
	Complete
	// Fresh: the disk is empty and gets a table and all volumes.
	Fresh
	// Wipe: the config permits that what is on the disk is destroyed.
	Wipe
	// Refuse: the disk is not ours to change.
	Refuse
)

// Decision is the row of the table that a disk falls into.
type Decision struct {
	Action Action
	Why    string // of a refusal
	// Found are the partitions of the volumes that are there, by the order of
	// the names that were asked for; a Name of "" is one that is missing, or
	// that has no file system yet.
	Found [2]hal.BlockDevice
}

// efiSystem is the type GUID of an EFI system partition (UEFI specification,
// table 5.7).
const efiSystem = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"

// mbrLinux is the type of STATE and EPHEMERAL in an MBR.
const mbrLinux = "83"

// Decide reads the table of what may be done: a disk with all volumes is left
// alone; an empty one is provisioned, and so is any other one that the config
// gives up with wipe; one that holds a boot partition and nothing else, or some
// of our volumes, is completed; anything else is refused.
//
// boot is the path of the partition that the node was booted from. Its disk is
// never wiped, whatever the config says, and neither is one with a volume of a
// node: wipe stays in the config after it has been done.
func Decide(disk hal.BlockDevice, partitions []hal.BlockDevice, boot string, wipe bool) Decision {
	if disk.Trouble != "" && disk.Table == hal.NoTable {
		return refuse("it cannot be read: " + disk.Trouble)
	}
	d, foreign, isBoot := sort(disk, partitions, boot)
	if disk.Trouble != "" {
		// It can be read, and a wipe that was cut may have left it so.
		foreign = listed("a damaged partition table ("+disk.Trouble+")", foreign)
	}
	switch {
	case d.Action == Refuse:
		return d
	case d.Found[0].Name != "" && d.Found[1].Name != "":
		d.Action = Skip
	case disk.ReadOnly:
		return d.refuse("it is read-only")
	case foreign == "" && disk.Table != hal.NoTable:
		d.Action = Complete
	case disk.Table == hal.NoTable && disk.FS == "" && disk.Blank && len(partitions) == 0:
		d.Action = Fresh
	case isBoot:
		return d.refuse("beside the boot partition it holds " + foreign + ", and the disk that the node boots from is never wiped")
	case wipe && (d.Found[0].Name != "" || d.Found[1].Name != ""):
		// The consent was for what was there before. A volume beside it that
		// is damaged now must not cost this one.
		return d.refuse("beside a volume of the node it holds " + foreign + ", and install.wipe gives up foreign disks alone: remove that, or take another disk")
	case wipe:
		d.Action = Wipe
	default:
		if foreign == "" {
			foreign = content(disk)
		}
		return d.refuse("it holds " + foreign + "; set install.wipe: true to destroy that")
	}
	return d
}

func refuse(why string) Decision { return Decision{Action: Refuse, Why: why} }

// refuse keeps what was found: a volume that is there is of use on a disk that
// must not be changed, too.
func (d Decision) refuse(why string) Decision {
	d.Action, d.Why = Refuse, why
	return d
}

// sort tells our partitions from foreign ones.
func sort(disk hal.BlockDevice, partitions []hal.BlockDevice, boot string) (d Decision, foreign string, isBoot bool) {
	for _, p := range partitions {
		if p.Path == boot {
			isBoot = true
		}
	}
	var seen [2]bool
	for _, p := range partitions {
		if p.Path == boot || disk.Table == hal.GPT && p.Type == efiSystem {
			continue
		}
		i := volumeIndex(disk, p, isBoot)
		if i < 0 {
			foreign = listed(foreign, content(p))
			continue
		}
		// Whatever is in them: which of the two would be the volume?
		if seen[i] {
			return refuse("it has two partitions labelled " + name(i)), "", isBoot
		}
		seen[i] = true
		switch {
		case p.FS == "ext4":
			d.Found[i] = p
		case !p.Blank || p.Trouble != "":
			// Ours by its label, and somebody's by what is in it.
			foreign = listed(foreign, content(p))
		}
	}
	if disk.Table == hal.MBR && !isBoot {
		// Our volumes are known there by the boot partition beside them.
		foreign = listed(foreign, "an MBR partition table")
	}
	return d, foreign, isBoot
}

func name(i int) string { return [2]string{State, Ephemeral}[i] }

// volumeIndex returns which of our volumes a partition is, -1 for none. An MBR
// has no labels: there the place behind the boot partition counts, and the
// label of the file system in it.
func volumeIndex(disk, p hal.BlockDevice, isBoot bool) int {
	for i := range 2 {
		if disk.Table == hal.GPT && p.Label == name(i) {
			return i
		}
		if disk.Table == hal.MBR && isBoot && p.Number == i+2 && p.Type == mbrLinux && (p.FSLabel == name(i) || p.Blank) {
			return i
		}
	}
	return -1
}

// content describes a device in a few words.
func content(p hal.BlockDevice) string {
	what := p.FS
	switch {
	case p.Trouble != "":
		what = "something unreadable"
	case what == "" && p.Number == 0 && p.Table != hal.NoTable:
		what = "a partition table"
	case what == "" && p.Blank:
		what = "an empty partition"
	case what == "":
		what = "unknown data"
	}
	if label := p.Label; label != "" {
		what += " " + strconv.Quote(label)
	} else if p.FSLabel != "" {
		what += " " + strconv.Quote(p.FSLabel)
	}
	return what + " (" + p.Path + ")"
}

func listed(list, item string) string {
	if list == "" {
		return item
	}
	if item == "" {
		return list
	}
	return list + ", " + item
}
