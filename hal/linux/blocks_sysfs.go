package linux

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"machined/hal"
)

// sysDevice is a block device as sysfs has it
// (Documentation/ABI/stable/sysfs-block).
type sysDevice struct {
	name        string
	number      int   // of a partition
	start, size int64 // bytes
	readOnly    bool
}

// sysDisk is a whole disk with its partitions.
type sysDisk struct {
	sysDevice
	block     int64 // bytes of a logical block
	removable bool
	rotating  bool
	parts     []sysDevice // by number
	print     string      // changes when the disk has to be read again
}

// device returns what is known without reading.
func (d sysDevice) device(dev string) hal.BlockDevice {
	return hal.BlockDevice{
		Name: d.name, Path: filepath.Join(dev, strings.ReplaceAll(d.name, "!", "/")), Disk: d.name, Number: d.number,
		Start: d.start, Size: d.size, ReadOnly: d.readOnly,
	}
}

func (d sysDisk) device(dev string) hal.BlockDevice {
	device := d.sysDevice.device(dev)
	device.Removable, device.Rotational = d.removable, d.rotating
	return device
}

// list returns the disks that have a medium, by name.
func (b *BlockDevices) list() []sysDisk {
	dir := filepath.Join(b.sys, "class", "block")
	entries, _ := os.ReadDir(dir) // without it there are no disks
	disks, parts := make(map[string]*sysDisk), make(map[string][]sysDevice)
	for _, e := range entries {
		at, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // it has gone
		}
		d := sysDevice{
			name: e.Name(), number: int(number(at, "partition")), start: number(at, "start") * 512, size: number(at, "size") * 512,
			readOnly: number(at, "ro") != 0,
		}
		switch {
		case d.number > 0:
			disk := filepath.Base(filepath.Dir(at))
			parts[disk] = append(parts[disk], d)
		case d.size > 0 && !leftOut(d.name) && number(at, "hidden") == 0:
			disks[d.name] = &sysDisk{
				sysDevice: d, block: max(number(at, "queue/logical_block_size"), 512), removable: number(at, "removable") != 0,
				rotating: number(at, "queue/rotational") != 0, print: text(at, "diskseq"),
			}
		}
	}
	var out []sysDisk
	for name, d := range disks {
		d.parts = parts[name]
		slices.SortFunc(d.parts, func(a, b sysDevice) int { return cmp.Compare(a.number, b.number) })
		d.print += fmt.Sprint(d.sysDevice, d.block, d.removable, d.rotating, d.parts)
		out = append(out, *d)
	}
	slices.SortFunc(out, func(a, b sysDisk) int { return cmp.Compare(a.name, b.name) })
	return out
}

// heard counts the kernel's events of a disk.
func (b *BlockDevices) heard(disk string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprint(" ", b.events[disk], " ", b.events[""])
}

// number reads an attribute; 0 for one that is not there.
func number(dir, name string) int64 {
	n, _ := strconv.ParseInt(text(dir, name), 10, 64)
	return n
}

// text reads an attribute; "" for one that is not there.
func text(dir, name string) string {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return clean(b)
}

// clean makes the hardware's own words fit for a terminal.
func clean(b []byte) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, strings.TrimSpace(strings.Trim(string(b), "\x00")))
}

// describe finds out what hardware a disk is. It may ask the hardware.
func (b *BlockDevices) describe(d *hal.BlockDevice) {
	at, err := filepath.EvalSymlinks(filepath.Join(b.sys, "class", "block", d.Name))
	if err != nil {
		return
	}
	d.Bus = busOf(at)
	device := filepath.Join(at, "device")
	switch d.Bus {
	case "mmc":
		d.Model, d.Serial = text(device, "name"), text(device, "serial")
	case "nvme":
		d.Model, d.Serial = text(device, "model"), text(device, "serial")
	case "virtio":
		d.Model, d.Serial = text(device, "model"), text(at, "serial")
	default:
		d.Model = text(device, "model")
		if vendor := text(device, "vendor"); vendor != "" && vendor != "ATA" { // ATA has no field for it
			d.Model = strings.TrimSpace(vendor + " " + d.Model)
		}
		d.Serial = serialPage(device)
		if d.Bus == "usb" && d.Serial == "" {
			d.Serial = usbSerial(at)
		}
	}
}

// busOf tells the bus from the device's place in sysfs, such as
// /sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/block/sdb.
func busOf(at string) string {
	bus := ""
	for segment := range strings.SplitSeq(at, "/") {
		switch kind := strings.TrimRight(segment, "0123456789"); {
		case kind == "mmc_host", kind == "nvme":
			return strings.TrimSuffix(kind, "_host")
		case kind == "virtio" && segment != kind, kind == "usb" && segment != kind, kind == "ata" && segment != kind:
			bus = kind
		case kind == "host" && segment != kind && bus == "":
			bus = "scsi"
		}
	}
	return bus
}

// serialPage reads the unit's serial number (SPC-4, 7.8.14), which the kernel
// keeps: a length in the fourth byte, and text behind it.
func serialPage(device string) string {
	b, err := os.ReadFile(filepath.Join(device, "vpd_pg80"))
	if err != nil || len(b) < 4 {
		return ""
	}
	return clean(b[4:min(len(b), 4+int(b[3]))])
}

// usbSerial goes up to the USB device that the disk is a part of.
func usbSerial(at string) string {
	for ; len(at) > 1; at = filepath.Dir(at) {
		if text(at, "idVendor") != "" {
			return text(at, "serial")
		}
	}
	return ""
}
