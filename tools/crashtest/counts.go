package main

import (
	"fmt"

	"machined/tools/crashtest/judge"
	"machined/tools/crashtest/replay"
)

// counts are what was found.
type counts struct {
	points   int // cuts, each position's images once
	images   int // that differ
	bricked  int
	wrong    int // another slot than promised boots
	checked  int // images whose file system was checked
	repairs  judge.Repairs
	upgraded int // trees of files that were upgraded in memory
	broken   int // images that could not be repaired or upgraded
	kernel   int // images that were upgraded over the kernel's file system
	faults   []fault
}

func (c *counts) add(o counts) {
	c.points += o.points
	c.images += o.images
	c.bricked += o.bricked
	c.wrong += o.wrong
	c.checked += o.checked
	c.repairs.Clean += o.repairs.Clean
	c.repairs.Repairable += o.repairs.Repairable
	c.repairs.Mended += o.repairs.Mended
	c.repairs.Refused += o.repairs.Refused
	c.upgraded += o.upgraded
	c.broken += o.broken
	c.kernel += o.kernel
	c.faults = append(c.faults, o.faults...)
}

// bad counts all that fails the run.
func (c *counts) bad() int { return c.bricked + c.wrong + c.broken }

// fault is a point that fails the run.
type fault struct {
	scenario string
	cut      replay.Cut
	err      error
	image    string // of the boot partition; empty when there are enough already
}

func (f fault) String() string {
	text := fmt.Sprintf("%s, after %q, at event %d of %d, %s: %v", f.scenario, f.cut.After, f.cut.Position, f.cut.Of, f.cut.Left, f.err)
	if f.image != "" {
		text += "\n    image: " + f.image
	}
	return text
}

// String returns them as the report has them.
func (c *counts) String() string {
	return fmt.Sprintf("cut_points=%d bootable=%d bricked=%d wrong_slot=%d images=%d", c.points, c.points-c.bricked-c.wrong, c.bricked, c.wrong, c.images) +
		fmt.Sprintf(" fsck_checked=%d clean=%d repairable=%d repaired_by_node=%d refused_by_node=%d", c.checked, c.repairs.Clean, c.repairs.Repairable, c.repairs.Mended, c.repairs.Refused) +
		fmt.Sprintf(" second_upgrade=%d second_upgrade_kernel=%d broken=%d", c.upgraded, c.kernel, c.broken)
}
