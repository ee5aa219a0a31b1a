package bootpart

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"
)

// bootSector makes the first sector of a FAT32 volume of that label.
func bootSector(label string) []byte {
	sector := make([]byte, 512)
	sector[66] = 0x29
	copy(sector[71:], fmt.Sprintf("%-11s", label))
	copy(sector[82:], "FAT32   ")
	sector[510], sector[511] = 0x55, 0xaa
	return sector
}

// machine is a /sys and the labels of its FAT32 partitions.
type machine struct {
	sys    fstest.MapFS
	labels map[string]string
}

func newMachine() *machine {
	return &machine{sys: fstest.MapFS{"class/block": {Mode: fs.ModeDir | 0o755}}, labels: make(map[string]string)}
}

func (m *machine) disk(name string) {
	m.sys["class/block/"+name+"/uevent"] = &fstest.MapFile{Data: []byte("DEVNAME=" + name + "\nDEVTYPE=disk\n")}
}

func (m *machine) partition(name, uuid, label string) *machine {
	dir := "class/block/" + name
	m.sys[dir+"/partition"] = &fstest.MapFile{Data: []byte("1\n")}
	uevent := "MAJOR=8\nMINOR=1\nDEVNAME=" + name + "\nDEVTYPE=partition\nPARTN=1\n"
	if uuid != "" {
		uevent += "PARTUUID=" + uuid + "\n"
	}
	m.sys[dir+"/uevent"] = &fstest.MapFile{Data: []byte(uevent)}
	m.labels[name] = label
	return m
}

func (m *machine) readSector(name string) ([]byte, error) {
	label, ok := m.labels[name]
	if !ok || label == "unreadable" {
		return nil, errors.New("input/output error")
	}
	return bootSector(label), nil
}

func TestFind(t *testing.T) {
	const uuidA, uuidB = "aaaaaaaa-0001-4000-8000-000000000001", "bbbbbbbb-0001-4000-8000-000000000001"
	for _, c := range []struct {
		name    string
		machine *machine
		want    Want
		found   Partition // none when empty
	}{
		{name: "nothing yet", machine: newMachine()},
		{name: "SD card", machine: newMachine().partition("mmcblk0p1", "1234abcd-01", Label).partition("mmcblk0p2", "1234abcd-02", ""),
			want: Want{DiskPrefix: "mmcblk0"}, found: Partition{Name: "mmcblk0p1", Disk: "mmcblk0", UUID: "1234abcd-01"}},
		{name: "SATA or USB", machine: newMachine().partition("sda1", "", Label), found: Partition{Name: "sda1", Disk: "sda"}},
		{name: "virtio", machine: newMachine().partition("vdb12", "", Label), found: Partition{Name: "vdb12", Disk: "vdb"}},
		{name: "NVMe", machine: newMachine().partition("nvme0n1p1", "", Label), found: Partition{Name: "nvme0n1p1", Disk: "nvme0n1"}},
		{name: "disk name that ends in p", machine: newMachine().partition("sdp1", "", Label), found: Partition{Name: "sdp1", Disk: "sdp"}},
		{name: "loop device", machine: newMachine().partition("loop0p1", "", Label), found: Partition{Name: "loop0p1", Disk: "loop0"}},
		{name: "label missing", machine: newMachine().partition("sda1", "", "").partition("sda2", "", "DATA").partition("sda3", "", "machined")},
		{name: "unreadable partition before ours", machine: newMachine().partition("sda1", "", "unreadable").partition("sdb1", "", Label),
			found: Partition{Name: "sdb1", Disk: "sdb"}},
		{name: "two candidates, the first by name", machine: newMachine().partition("sdb1", "", Label).partition("sda1", "", Label),
			found: Partition{Name: "sda1", Disk: "sda"}},
		{name: "two candidates, one on the boot disk", machine: newMachine().partition("sda1", "", Label).partition("mmcblk1p1", "", Label).partition("mmcblk0p1", "", Label),
			want: Want{DiskPrefix: "mmcblk0"}, found: Partition{Name: "mmcblk0p1", Disk: "mmcblk0"}},
		{name: "boot disk not there yet", machine: newMachine().partition("sda1", "", Label), want: Want{DiskPrefix: "mmcblk0"}},
		{name: "UUID wanted", machine: newMachine().partition("sda1", uuidA, Label).partition("sdb1", uuidB, Label),
			want: Want{UUID: uuidB}, found: Partition{Name: "sdb1", Disk: "sdb", UUID: uuidB}},
		{name: "UUID wanted, in upper case in sysfs", machine: newMachine().partition("sda1", "BBBBBBBB-0001-4000-8000-000000000001", Label),
			want: Want{UUID: uuidB}, found: Partition{Name: "sda1", Disk: "sda", UUID: uuidB}},
		{name: "UUID wanted, not there yet", machine: newMachine().partition("sda1", uuidA, Label), want: Want{UUID: uuidB}},
		{name: "UUID wanted, label missing", machine: newMachine().partition("sda1", uuidB, "DATA"), want: Want{UUID: uuidB}},
		// Not every kernel tells the UUID.
		{name: "UUID wanted, the kernel tells none", machine: newMachine().partition("sda1", "", Label),
			want: Want{UUID: uuidB}, found: Partition{Name: "sda1", Disk: "sda"}},
		{name: "UUID wanted, exact match wins", machine: newMachine().partition("sda1", "", Label).partition("sdb1", uuidB, Label),
			want: Want{UUID: uuidB}, found: Partition{Name: "sdb1", Disk: "sdb", UUID: uuidB}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.machine.disk("sda") // a whole disk is no candidate, even with the label
			c.machine.labels["sda"] = Label
			got, ok := Find(c.machine.sys, c.machine.readSector, c.want)
			if got != c.found || ok != (c.found.Name != "") {
				t.Errorf("Find(%+v) = %+v, %v; want %+v", c.want, got, ok, c.found)
			}
		})
	}
}

func TestFindWithoutSys(t *testing.T) {
	m := newMachine()
	if got, ok := Find(fstest.MapFS{}, m.readSector, Want{}); ok {
		t.Errorf("Find without /sys = %+v, true; want false", got)
	}
}

func TestVolumeLabel(t *testing.T) {
	change := func(at int, b byte) []byte {
		sector := bootSector(Label)
		sector[at] = b
		return sector
	}
	for _, c := range []struct {
		name   string
		sector []byte
		want   string
	}{
		{"ours", bootSector(Label), Label},
		{"label of 11 characters", bootSector("ABCDEFGHIJK"), "ABCDEFGHIJK"},
		{"label with a space", bootSector("A B"), "A B"},
		{"no label", bootSector(""), ""},
		{"nothing", nil, ""},
		{"half a sector", bootSector(Label)[:256], ""},
		{"a longer sector", append(bootSector(Label), make([]byte, 3584)...), Label},
		{"no signature", change(511, 0), ""},
		{"no extended boot signature", change(66, 0x28), ""},
		{"FAT16", change(85, '1'), ""},
		{"zeros", make([]byte, 512), ""},
	} {
		if got := VolumeLabel(c.sector); got != c.want {
			t.Errorf("VolumeLabel(%s) = %q; want %q", c.name, got, c.want)
		}
	}
}

// efiVariable encodes as efivarfs shows it: attributes, then UTF-16LE.
func efiVariable(text string, terminated bool) []byte {
	b := []byte{6, 0, 0, 0}
	for _, c := range text {
		b = binary.LittleEndian.AppendUint16(b, uint16(c))
	}
	if terminated {
		b = append(b, 0, 0)
	}
	return b
}

func TestLoaderPartition(t *testing.T) {
	const uuid = "bbbbbbbb-0001-4000-8000-00000000000f"
	for _, c := range []struct {
		name     string
		variable []byte
		want     string
		fails    bool
	}{
		{"as systemd-boot writes it", efiVariable("BBBBBBBB-0001-4000-8000-00000000000F", true), uuid, false},
		{"without the zero", efiVariable(uuid, false), uuid, false},
		{"rubbish behind the zero", append(efiVariable(uuid, true), 'x', 0), uuid, false},
		{"empty", efiVariable("", true), "", false},
		{"attributes alone", []byte{6, 0, 0, 0}, "", false},
		{"no attributes", nil, "", true},
		{"odd length", append(efiVariable(uuid, true), 0), "", true},
		{"not ASCII", efiVariable("é", true), "", true},
	} {
		got, err := LoaderPartition(c.variable)
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("LoaderPartition(%s) = %q, %v; want %q, failure %v", c.name, got, err, c.want, c.fails)
		}
	}
}

func FuzzVolumeLabel(f *testing.F) {
	f.Add(bootSector(Label))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, sector []byte) {
		if got := VolumeLabel(sector); len(got) > 11 || got != "" && len(sector) < 512 {
			t.Errorf("VolumeLabel(%d bytes) = %q; want at most 11 bytes of a whole sector", len(sector), got)
		}
	})
}

func FuzzLoaderPartition(f *testing.F) {
	f.Add(efiVariable("BBBBBBBB-0001-4000-8000-00000000000F", true))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, variable []byte) {
		got, err := LoaderPartition(variable)
		if err != nil && got != "" || 2*len(got) > len(variable) {
			t.Errorf("LoaderPartition(%d bytes) = %q, %v", len(variable), got, err)
		}
		for _, c := range []byte(got) {
			if c == 0 || c >= 0x80 || c >= 'A' && c <= 'Z' {
				t.Errorf("LoaderPartition = %q; want lower-case ASCII", got)
			}
		}
	})
}
