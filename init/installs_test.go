package main

import (
	"strings"
	"testing"
	"time"

	"machined/hal"
	"machined/init/config"
)

const gib = 1 << 30

// diskOf is a disk with partitions.
func diskOf(name string, disk hal.BlockDevice, parts ...hal.BlockDevice) []hal.BlockDevice {
	disk.Name, disk.Path, disk.Disk, disk.Size = name, "/dev/"+name, name, 8*gib
	list := []hal.BlockDevice{disk}
	for i, p := range parts {
		p.Number = i + 1
		p.Name = name + string(rune('1'+i))
		p.Path, p.Disk = "/dev/"+p.Name, name
		list = append(list, p)
	}
	return list
}

// TestInstallable is the table of what may be done with a disk.
func TestInstallable(t *testing.T) {
	const efi, linuxGUID = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b", "0fc63daf-8483-4772-8e79-3d69d8477de4"
	boot := hal.BlockDevice{Type: efi, Label: "EFI", FS: "vfat", FSLabel: "MACHINED"}
	windows := hal.BlockDevice{Type: efi, Label: "EFI", FS: "vfat", FSLabel: "SYSTEM"}
	state := hal.BlockDevice{Type: linuxGUID, Label: "STATE", FS: "ext4", FSLabel: "STATE"}
	photos := hal.BlockDevice{Type: linuxGUID, Label: "photos", FS: "ext4", FSLabel: "photos"}
	gpt := hal.BlockDevice{Table: hal.GPT}
	for _, c := range []struct {
		name    string
		devices []hal.BlockDevice
		mayWipe bool

		wipe, installed bool
		why             string
	}{
		{"blank", diskOf("sda", hal.BlockDevice{Blank: true}), false, false, false, ""},
		{"blank, wipe", diskOf("sda", hal.BlockDevice{Blank: true}), true, false, false, ""},
		{"begun", diskOf("sda", gpt), false, false, false, ""},
		{"foreign", diskOf("sda", gpt, photos), false, false, false, `it holds ext4 "photos"`},
		{"foreign, wipe", diskOf("sda", gpt, photos), true, true, false, ""},
		{"whole", diskOf("sda", gpt, boot, state), false, false, true, "a node is on /dev/sda already"},
		{"whole, wipe", diskOf("sda", gpt, boot, state), true, false, true, "a node is on /dev/sda already"},
		{"boot partition alone", diskOf("sda", gpt, boot), true, false, true, "a node is on /dev/sda already"},
		{"volumes alone", diskOf("sda", gpt, state), true, false, false, "no boot partition"},
		{"another's boot partition", diskOf("sda", gpt, windows), false, false, false, "that is not ours"},
		{"another's boot partition, wipe", diskOf("sda", gpt, windows), true, true, false, ""},
		{"MBR of ours", diskOf("sda", hal.BlockDevice{Table: hal.MBR}, hal.BlockDevice{Type: "0c", FS: "vfat", FSLabel: "MACHINED"}), false, false, true, "a node is on /dev/sda already"},
		{"read-only", diskOf("sda", hal.BlockDevice{Blank: true, ReadOnly: true}), true, false, false, "read-only"},
		{"another disk", diskOf("sdb", hal.BlockDevice{Blank: true}), true, false, false, "there is no disk /dev/sda"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			for _, d := range c.devices {
				if d.Number == 0 {
					r.blocks.AddDisk(d)
				} else {
					r.blocks.AddPartition(d)
				}
			}
			wipe, installed, err := r.installable("/dev/sda", c.mayWipe)
			said := ""
			if err != nil {
				said = err.Error()
			}
			if wipe != c.wipe || installed != c.installed || (c.why == "") != (err == nil) || !strings.Contains(said, c.why) {
				t.Errorf("wipe %v, installed %v, %v; want %v, %v, %q", wipe, installed, err, c.wipe, c.installed, c.why)
			}
		})
	}
	r := newRig(t)
	r.blocks.AddDisk(diskOf("mmcblk0", hal.BlockDevice{Blank: true})[0])
	if _, _, err := r.installable("/dev/mmcblk0", true); err == nil || !strings.Contains(err.Error(), "runs from") {
		t.Errorf("the disk that the node runs from is %v; want it refused", err)
	}
}

// TestInstallByConfig: the disk of the config is installed on by a node that was
// booted from elsewhere, once, and the volumes are not made on it before.
func TestInstallByConfig(t *testing.T) {
	for _, c := range []struct {
		name    string
		install *config.Install
		disk    hal.BlockDevice
		phase   string
		message string
	}{
		{"volumes alone", &config.Install{Disk: "/dev/sda"}, hal.BlockDevice{Blank: true}, "", ""},
		{"not there yet", &config.Install{Disk: "/dev/sdx", System: true}, hal.BlockDevice{Blank: true}, installWaiting, "waiting for the disk"},
		{"foreign", &config.Install{Disk: "/dev/sda", System: true}, hal.BlockDevice{FS: "ext4", FSLabel: "photos"}, installRefused, `it holds ext4 "photos"`},
		{"two that match", &config.Install{Selector: &config.DiskSelector{Bus: "usb"}, System: true}, hal.BlockDevice{Blank: true, Bus: "usb"}, installRefused, "matches /dev/sda and /dev/sdb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.loaded.Config.Machine.Install = c.install
			r.blocks.AddDisk(diskOf("sda", c.disk)[0])
			r.blocks.AddDisk(diskOf("sdb", hal.BlockDevice{Blank: true, Bus: "usb"})[0])
			for range 3 {
				r.followInstall()
			}
			s := r.installs.now()
			if s.Phase != c.phase || !strings.Contains(s.Message, c.message) {
				t.Errorf("InstallStatus = %+v; want %s, %q", s, c.phase, c.message)
			}
		})
	}
}

// TestInstallIsTriedAgain: what the node is to be written from may be away for a
// while.
func TestInstallIsTriedAgain(t *testing.T) {
	r := newRig(t)
	r.loaded.Config.Machine.Install = &config.Install{Disk: "/dev/sda", System: true}
	r.blocks.AddDisk(diskOf("sda", hal.BlockDevice{Blank: true})[0])
	for attempt := 1; attempt <= installAttempts; attempt++ {
		r.followInstall() // nothing can be read of the boot partition here
		s, pause := r.installs.now(), installPause<<(attempt-1)
		want := "trying again in " + pause.String()
		if attempt == installAttempts {
			want = "`machinectl install` tries it again"
		}
		if s.Phase != installFailed || !strings.HasSuffix(s.Message, want) {
			t.Fatalf("after attempt %d InstallStatus = %+v; want %s, %q", attempt, s, installFailed, want)
		}
		r.clock.Advance(int64(pause) - 1)
		r.followInstall()
		if got := r.installs.now(); got != s {
			t.Errorf("before its time attempt %d was made: %+v", attempt+1, got)
		}
		r.clock.Advance(1)
	}
	r.clock.Advance(int64(24 * time.Hour))
	r.followInstall()
	if r.installs.failed != installAttempts {
		t.Errorf("%d attempts were made; want %d", r.installs.failed, installAttempts)
	}
}
