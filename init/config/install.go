package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

func (d *decoder) install(v value) *Install {
	o := d.object(v, "disk", "wipe", "system")
	if !o.ok {
		return nil
	}
	i := &Install{Wipe: d.boolean(o.get("wipe"), false), System: d.boolean(o.get("system"), false)}
	disk := d.need(o, "disk")
	if !disk.absent() && target(disk.node).Kind == yaml.MappingNode {
		i.Selector = d.selector(disk)
	} else {
		i.Disk = scalar(d, disk, "", parseDisk)
	}
	return i
}

func (d *decoder) selector(v value) *DiskSelector {
	o := d.object(v, "size", "model", "serial", "bus")
	if len(o.fields) == 0 {
		d.errorf(v, "a selector without a field matches any disk; give at least one of size, model, serial, bus")
	}
	bounds := scalar(d, o.get("size"), sizeBounds{}, parseSizeBounds)
	return &DiskSelector{
		Model: scalar(d, o.get("model"), "", parsePattern), Serial: scalar(d, o.get("serial"), "", parsePattern),
		Bus: scalar(d, o.get("bus"), "", parseBus), MinSize: bounds.least, MaxSize: bounds.most,
	}
}

func parsePattern(s string) (string, error) {
	if strings.TrimSpace(s) == "" || strings.Trim(s, "*") == "" {
		return "", fmt.Errorf("want a text, with * for any part, such as Samsung*; got %s", quote(s))
	}
	return s, nil
}

func parseBus(s string) (string, error) {
	buses := []string{"ata", "mmc", "nvme", "scsi", "usb", "virtio"}
	if !slices.Contains(buses, s) {
		return "", fmt.Errorf("want one of %s; got %s", strings.Join(buses, ", "), quote(s))
	}
	return s, nil
}

type sizeBounds struct{ least, most ByteSize }

// parseSizeBounds reads one or two comparisons. Disks of one nominal size
// differ by some sectors, so that there is no equality.
func parseSizeBounds(s string) (sizeBounds, error) {
	var b sizeBounds
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		bound := &b.least
		text, ok := strings.CutPrefix(part, ">=")
		if !ok {
			bound = &b.most
			text, ok = strings.CutPrefix(part, "<=")
		}
		size, err := parseSize(strings.TrimSpace(text))
		if !ok || err != nil || *bound != 0 || size == 0 {
			return sizeBounds{}, fmt.Errorf(`want ">= SIZE", "<= SIZE" or both with a comma between, such as ">= 8GiB, <= 64GiB"; got %s`, quote(s))
		}
		*bound = size
	}
	if b.most != 0 && b.least > b.most {
		return sizeBounds{}, fmt.Errorf("no disk is %s", quote(s))
	}
	return b, nil
}
