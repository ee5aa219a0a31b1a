// Package bootpart finds the partition that the node was booted from among the
// block devices that have appeared so far.
package bootpart

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Label is the FAT volume label of a boot partition of ours.
const Label = "MACHINED"

// Partition is a candidate.
type Partition struct {
	Name string // kernel name, such as mmcblk0p1
	Disk string // kernel name of the whole disk
	UUID string // GPT partition GUID or MBR signature and number, lower case; may be empty
}

// Want narrows the search by what the firmware tells.
type Want struct {
	// UUID of the partition that the loader came from; empty when unknown.
	UUID string
	// DiskPrefix is the start of the disk's kernel name where the board's
	// firmware can only boot from there; empty when it may be any.
	DiskPrefix string
}

// Find returns the boot partition, or false when it has not appeared (yet).
// sys is /sys; readSector returns the first 512 bytes of a device by its
// kernel name. Where several match, one whose UUID is the wanted one wins, and
// then the first by name, so that the answer does not depend on the order of
// probing.
func Find(sys fs.FS, readSector func(name string) ([]byte, error), want Want) (Partition, bool) {
	var found Partition // without a UUID to compare
	for _, p := range partitions(sys) {
		if want.UUID != "" && p.UUID != "" && p.UUID != want.UUID {
			continue
		}
		if !strings.HasPrefix(p.Disk, want.DiskPrefix) {
			continue
		}
		sector, err := readSector(p.Name)
		if err != nil || VolumeLabel(sector) != Label {
			continue
		}
		if p.UUID == want.UUID || want.UUID == "" {
			return p, true
		}
		if found.Name == "" {
			found = p
		}
	}
	return found, found.Name != ""
}

// partitions lists the partitions of sysfs by name.
func partitions(sys fs.FS) []Partition {
	entries, err := fs.ReadDir(sys, "class/block")
	if err != nil {
		return nil
	}
	var found []Partition
	for _, e := range entries {
		dir := path.Join("class/block", e.Name())
		if _, err := fs.Stat(sys, path.Join(dir, "partition")); err != nil {
			continue
		}
		found = append(found, Partition{
			Name: e.Name(), Disk: diskOf(e.Name()), UUID: ueventValue(sys, dir, "PARTUUID"),
		})
	}
	slices.SortFunc(found, func(a, b Partition) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// diskOf cuts the partition number: sda1 → sda, mmcblk0p1 → mmcblk0. The
// kernel puts a p between where the disk's name ends in a digit.
func diskOf(partition string) string {
	disk := strings.TrimRight(partition, "0123456789")
	if cut, ok := strings.CutSuffix(disk, "p"); ok && cut != "" && cut[len(cut)-1] >= '0' && cut[len(cut)-1] <= '9' {
		return cut
	}
	return disk
}

func ueventValue(sys fs.FS, dir, key string) string {
	uevent, err := fs.ReadFile(sys, path.Join(dir, "uevent"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(uevent)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			return strings.ToLower(v)
		}
	}
	return ""
}

// VolumeLabel returns the label in a FAT32 boot sector (Microsoft FAT
// specification, BPB of FAT32), or "" when the sector is none.
func VolumeLabel(sector []byte) string {
	const fat32Type, label, extended = 82, 71, 66
	if len(sector) < 512 || sector[510] != 0x55 || sector[511] != 0xaa ||
		sector[extended] != 0x29 || !bytes.Equal(sector[fat32Type:fat32Type+5], []byte("FAT32")) {
		return ""
	}
	return strings.TrimRight(string(sector[label:label+11]), " ")
}

// LoaderPartition decodes the EFI variable LoaderDevicePartUUID, by which
// systemd-boot names the partition it came from (systemd's Boot Loader
// Interface).
func LoaderPartition(variable []byte) (string, error) {
	uuid, err := LoaderString(variable)
	if err != nil {
		return "", fmt.Errorf("decode LoaderDevicePartUUID: %w", err)
	}
	return strings.ToLower(uuid), nil
}

// LoaderString decodes a string of systemd's Boot Loader Interface as efivarfs has
// it: four bytes of attributes, then UTF-16LE with a zero at its end. Names of
// entries and partitions are ASCII; anything else is an error.
func LoaderString(variable []byte) (string, error) {
	const attributes = 4
	if len(variable) < attributes || len(variable)%2 != 0 {
		return "", fmt.Errorf("%d bytes are no UTF-16 string", len(variable))
	}
	var text []byte
	for b := variable[attributes:]; len(b) >= 2; b = b[2:] {
		c := binary.LittleEndian.Uint16(b)
		if c == 0 {
			break
		}
		if c >= 0x80 {
			return "", fmt.Errorf("character %#x is not ASCII", c)
		}
		text = append(text, byte(c))
	}
	return string(text), nil
}
