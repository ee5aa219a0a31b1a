package block

import (
	"strings"

	"machined/hal"
)

// Selector describes a disk by what it is. Empty fields match any disk.
type Selector struct {
	// Model and Serial may hold * for any text.
	Model, Serial string
	Bus           string
	// MinSize and MaxSize are bytes; 0 is no bound.
	MinSize, MaxSize int64
}

// Matches reports whether a disk is one that the selector describes.
func (s Selector) Matches(disk hal.BlockDevice) bool {
	return (s.Bus == "" || s.Bus == disk.Bus) &&
		glob(s.Model, disk.Model) && glob(s.Serial, disk.Serial) &&
		disk.Size >= s.MinSize && (s.MaxSize == 0 || disk.Size <= s.MaxSize)
}

// glob matches text against a pattern with * for any text; an empty pattern
// matches all.
func glob(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}

// target returns the disk that carries the volumes. why says why there is none;
// forGood says that time does not mend it.
func (c *Volumes) target(devices []hal.BlockDevice, bootDisk string) (disk hal.BlockDevice, why string, forGood bool) {
	settings := c.Settings()
	if c.InRAM && settings.Disk == "" && settings.Selector == nil {
		adopted, list, found := adopt(devices)
		if found > 1 {
			return disk, "several disks have a STATE: " + list + "; name one in install.disk", true
		}
		if found == 1 {
			return adopted, "", false
		}
		return disk, "waiting for the disk with STATE", false // it was pulled out
	}
	var found []hal.BlockDevice
	for _, d := range devices {
		if d.Number != 0 {
			continue
		}
		switch {
		case settings.Disk != "":
			if d.Path == settings.Disk {
				found = append(found, d)
			}
		case settings.Selector != nil:
			if settings.Selector.Matches(d) {
				found = append(found, d)
			}
		case d.Name == bootDisk:
			found = append(found, d)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], "", false
	case len(found) > 1:
		names := ""
		for _, d := range found {
			names = listed(names, d.Path+" "+d.Model)
		}
		return disk, "install.disk matches several disks: " + names, true
	case settings.Disk != "":
		return disk, "waiting for " + settings.Disk, false
	case settings.Selector != nil:
		return disk, "waiting for a disk that install.disk matches", false
	case c.BootDisk == "":
		return disk, "the node was not booted from a disk, and install.disk names none", true
	}
	return disk, "waiting for the boot disk " + c.BootDisk, false
}
