// Program guest is the init of a virtual machine. It does what no build machine
// allows, with the real drivers, and says how it went.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"machined/hal"
	"machined/hal/linux"
)

const mib = 1 << 20

func main() {
	if err := run(); err != nil {
		fmt.Println("GUEST failed:", err)
	}
	linux.Mounts{}.Sync()
	// Under -no-reboot the emulator ends with the watchdog's reset, or with
	// this restart.
	watch(linux.NewWatchdog("/dev/watchdog"))
	fmt.Println("GUEST is not reset by its watchdog")
	fmt.Println("GUEST restart:", linux.Power{}.Restart(""))
	select {}
}

// watch outlives a watchdog that it feeds, and one that it disarmed, and then
// has it fire.
func watch(dog *linux.Watchdog) {
	const timeout = 2 // seconds
	got, err := dog.Start(timeout)
	fmt.Printf("GUEST watchdog starts with %d s: failed %v\n", got, err != nil)
	for range 6 {
		time.Sleep(timeout * time.Second / 4)
		if err := dog.Feed(); err != nil {
			fmt.Println("GUEST feed:", err)
		}
	}
	fmt.Println("GUEST is fed")
	if err := dog.Disarm(); err != nil {
		fmt.Println("GUEST disarm:", err)
	}
	time.Sleep(3 * timeout * time.Second / 2)
	fmt.Println("GUEST outlived the disarmed watchdog")
	_, _ = dog.Start(timeout)
	time.Sleep(10 * timeout * time.Second)
}

func run() error {
	mounts := linux.Mounts{}
	for _, m := range []hal.Mount{
		{Source: "devtmpfs", Target: "/dev", FSType: "devtmpfs"},
		{Source: "sysfs", Target: "/sys", FSType: "sysfs"},
		{Source: "/dev/vda", Target: "/mnt", FSType: "ext4"},
	} {
		if err := os.MkdirAll(m.Target, 0o755); err != nil {
			return err
		}
		if err := mounts.Mount(m); err != nil {
			return err
		}
	}
	grow()
	addPartitions()
	if err := mounts.Unmount("/mnt", false); err != nil {
		return err
	}
	if err := volumes(); err != nil {
		return err
	}
	fmt.Println("GUEST done")
	return nil
}

func grow() {
	for _, size := range []int64{16 * mib, 24*mib + 512, 32 * mib, 32 * mib, 16 * mib, 1 << 40} {
		err := linux.Disks{}.GrowExt4("/mnt", size)
		linux.Mounts{}.Sync()
		fmt.Printf("GUEST grow to %d: failed %v, now %d\n", size, err != nil, ext4Size("/dev/vda"))
	}
}

// ext4Size reads the superblock (block count and size, fs/ext4/ext4.h).
func ext4Size(device string) int64 {
	f, err := os.Open(device)
	if err != nil {
		return -1
	}
	defer f.Close()
	super := make([]byte, 1024)
	if _, err := f.ReadAt(super, 1024); err != nil {
		return -1
	}
	return int64(binary.LittleEndian.Uint32(super[4:])) << (10 + binary.LittleEndian.Uint32(super[24:]))
}

func addPartitions() {
	for _, c := range []struct {
		number      int
		start, size int64
	}{{2, 8 * mib, 16 * mib}, {2, 8 * mib, 16 * mib}, {3, 16 * mib, 16 * mib}, {2, 32 * mib, 16 * mib}} {
		path, err := linux.Disks{}.AddPartition("/dev/vdb", c.number, c.start, c.size)
		fmt.Printf("GUEST partition %d at %d: %q, failed %v\n", c.number, c.start, path, err != nil)
	}
}
