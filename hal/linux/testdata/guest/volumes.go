package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"machined/hal"
	"machined/hal/linux"
	"machined/hal/linux/volume"
)

const disk = "/dev/vdc"

// volumes makes volumes on a blank disk with the real drivers, and finds them.
func volumes() error {
	blocks := linux.NewBlockDevices("/sys", "/dev")
	go blocks.Run(context.Background(), func() {}, func(err error) { fmt.Println("GUEST warned:", err) })
	wait(blocks, "vdc", func(d hal.BlockDevice) bool { return d.Blank && d.Table == hal.NoTable && d.Bus == "virtio" })
	p := volume.NewProvisioner(linux.Disks{}, "/templates")
	request := hal.Provision{Disk: disk, Volumes: []hal.NewVolume{{Label: "STATE", Size: 16 * mib}, {Label: "EPHEMERAL"}}}
	if err := p.Provision(request); err != nil {
		return err
	}
	// No Rescan: the kernel tells of the partitions.
	wait(blocks, "vdc1", func(d hal.BlockDevice) bool { return d.FS == "ext4" && d.Label == "STATE" && d.FSLabel == "STATE" })
	wait(blocks, "vdc2", func(d hal.BlockDevice) bool { return d.FS == "ext4" && d.Label == "EPHEMERAL" })
	if err := use("vdc1", "STATE"); err != nil {
		return err
	}
	if err := use("vdc2", "EPHEMERAL"); err != nil {
		return err
	}
	request.Wipe = true
	fmt.Println("GUEST wipes what is mounted: failed", p.Provision(request) != nil)
	request.Wipe = false
	fmt.Println("GUEST provisions again: failed", p.Provision(request) != nil)
	fmt.Println("GUEST provisions a partition: refused", errors.Is(p.Provision(hal.Provision{Disk: disk + "1"}), hal.ErrInvalid))
	if err := (linux.Mounts{}).Unmount("/EPHEMERAL", false); err != nil {
		return err
	}
	if err := (linux.Mounts{}).Unmount("/STATE", false); err != nil {
		return err
	}
	// Only one volume: the kernel has to forget the other.
	if err := p.Provision(hal.Provision{Disk: disk, Wipe: true, Volumes: []hal.NewVolume{{Label: "DATA"}}}); err != nil {
		return err
	}
	wait(blocks, "vdc1", func(d hal.BlockDevice) bool { return d.Label == "DATA" })
	_, err := os.Stat("/sys/class/block/vdc2")
	fmt.Println("GUEST wiped: the old partition is gone", os.IsNotExist(err))
	return use("vdc1", "DATA")
}

// wait waits until a device is found as it is to be.
func wait(blocks *linux.BlockDevices, name string, good func(hal.BlockDevice) bool) {
	var last []hal.BlockDevice
	for range 100 {
		last = blocks.Devices()
		for _, d := range last {
			if d.Name == name && good(d) {
				fmt.Println("GUEST found", name)
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	fmt.Printf("GUEST did not find %s, but %+v\n", name, last)
}

// use mounts a volume, grows it, and writes to it.
func use(device, label string) error {
	f, size, err := volume.Open(disk)
	if err != nil {
		return err
	}
	start := time.Now()
	e, err := volume.Find(f, size, label)
	took := time.Since(start)
	f.Close()
	if err != nil {
		return err
	}
	target := "/" + label
	if err := os.MkdirAll(target, 0o700); err != nil {
		return err
	}
	if err := (linux.Mounts{}).Mount(hal.Mount{Source: "/dev/" + device, Target: target, FSType: "ext4"}); err != nil {
		return err
	}
	if err := (linux.Disks{}).GrowExt4(target, e.Size); err != nil {
		return err
	}
	if err := (&linux.Files{}).Replace(target+"/a/file", []byte("written in the guest"), false); err != nil {
		return err
	}
	linux.Mounts{}.Sync()
	fmt.Printf("GUEST uses %s: partition %d has %d bytes, and its ext4 %v\n", label, e.Number, e.Size, ext4Size("/dev/"+device) > e.Size-4*mib)
	fmt.Printf("GUEST took %v to find %s\n", took, label)
	return nil
}
