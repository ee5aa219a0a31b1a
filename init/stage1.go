package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"machined/board"
	"machined/hal"
	"machined/hal/linux"
	"machined/hal/linux/fat"
	"machined/init/bootpart"
	"machined/init/console"
)

const (
	bootDir = "/boot" // the boot partition, read-only

	// bootOptions keep keys from other users: FAT has no owners.
	bootOptions = "umask=0077"

	watchdogPath    = "/dev/watchdog"
	watchdogTimeout = 15 // seconds; the most that a Raspberry Pi can
	// cardWait bounds the wait for a boot partition that appears late. Past it
	// the node restarts: a card may need the reset.
	cardWait = 2 * time.Minute
	cardPoll = 50 * time.Millisecond
)

// stage1 runs from the initramfs: it finds the board, and the boot partition
// with the slot that the firmware chose. A netbooted node has neither.
func stage1(log *console.Log, m hal.Mounts) (handover, error) {
	h := handover{WatchdogFD: -1, ListenerFD: -1, Resident: true}
	if err := mountKernel(m); err != nil {
		return h, err
	}
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return h, fmt.Errorf("read the kernel's arguments: %w", err)
	}
	args := parseBootArgs(string(cmdline))
	h.Slot, h.Image = args.Slot, args.Image
	dog := linux.NewWatchdog(watchdogPath)
	if args.Watchdog {
		h.WatchdogSecs, err = dog.Start(watchdogTimeout)
		h.WatchdogFD = dog.FD()
		if err != nil {
			log.Printf("watchdog", "There is none: %v.", err)
		}
	}
	b, err := findBoard(args)
	if err != nil {
		return h, err
	}
	h.Board = b.Name
	if netbooted, err := fromRAM(&h, args); err != nil || netbooted {
		if err == nil {
			log.Printf("boot", "Netbooted %s: the system is in RAM.", b.Name)
		}
		return h, err
	}
	if h.Slot == "" {
		h.Slot = "A"
		log.Printf("boot", "The kernel's arguments name no slot (machined.slot=); trying A.")
	}
	part, err := waitForBoot(log, m, dog, b)
	if err != nil {
		return h, err
	}
	h.BootPartition, h.BootDisk = "/dev/"+part.Name, part.Disk
	log.Printf("boot", "Slot %s of %s on %s.", h.Slot, h.BootPartition, b.Name)
	return h, nil
}

// mountKernel mounts what the kernel offers. Only /dev may be there already
// (CONFIG_DEVTMPFS_MOUNT does not reach an initramfs).
func mountKernel(m hal.Mounts) error {
	for _, mnt := range []hal.Mount{
		{Source: "proc", Target: "/proc", FSType: "proc", Flags: hal.NoSuid | hal.NoDev | hal.NoExec},
		{Source: "sysfs", Target: "/sys", FSType: "sysfs", Flags: hal.NoSuid | hal.NoDev | hal.NoExec},
		{Source: "devtmpfs", Target: "/dev", FSType: "devtmpfs", Flags: hal.NoSuid, Data: "mode=0755"},
		{Source: "tmpfs", Target: "/run", FSType: "tmpfs", Flags: hal.NoSuid | hal.NoDev, Data: "mode=0755,size=16m"},
	} {
		if err := os.MkdirAll(mnt.Target, 0o755); err != nil {
			return err
		}
		if err := m.Mount(mnt); err != nil && !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	return nil
}

func findBoard(args bootArgs) (board.Board, error) {
	if args.Board != "" {
		b, ok := board.ByName(args.Board)
		if !ok {
			return board.Board{}, fmt.Errorf("find the board: machined.board=%s is unknown; known are %s", args.Board, board.Names())
		}
		return b, nil
	}
	facts := board.Facts{Arch: runtime.GOARCH}
	// Absent without a device tree.
	facts.Compatible, _ = os.ReadFile("/proc/device-tree/compatible")
	_, err := os.Stat("/sys/firmware/efi")
	facts.EFI = err == nil
	b, ok := board.Detect(facts)
	if !ok {
		return board.Board{}, fmt.Errorf("find the board: no row matches arch=%s efi=%v compatible=%q; add machined.board=NAME to the kernel's arguments (known: %s)",
			facts.Arch, facts.EFI, facts.Compatible, board.Names())
	}
	return b, nil
}

// waitForBoot mounts the boot partition at bootDir once it is there. Cards and
// USB disks may appear seconds after the kernel starts PID 1.
func waitForBoot(log *console.Log, m hal.Mounts, dog hal.Watchdog, b board.Board) (bootpart.Partition, error) {
	want := bootpart.Want{DiskPrefix: b.BootDisk, UUID: loaderPartition(log, m, b)}
	started := time.Now()
	nextReport := 2 * time.Second
	for {
		part, ok := bootpart.Find(os.DirFS("/sys"), readSector, want)
		if ok {
			repairBoot(log, "/dev/"+part.Name)
			err := mountBoot(m, "/dev/"+part.Name)
			if err == nil {
				return part, nil
			}
			log.Printf("boot", "Trying again: %v.", err)
		}
		waited := time.Since(started)
		if waited > cardWait {
			return bootpart.Partition{}, fmt.Errorf("find the boot partition: no FAT32 volume labelled %s after %s; is the card or disk in place?", bootpart.Label, cardWait)
		}
		if waited > nextReport {
			log.Printf("boot", "Waiting for the boot partition (FAT32, label %s) for %s.", bootpart.Label, waited.Round(time.Second))
			nextReport *= 2
		}
		// Nothing else can hang here, so the wait itself counts as progress.
		_ = dog.Feed()
		time.Sleep(cardPoll)
	}
}

// repairBoot mends what a power cut in the middle of an upgrade has left. Linux would
// keep a FAT volume marked as dirty for ever, and what leaks of it. One that cannot be
// mended is mounted all the same: the slot that runs is not concerned.
func repairBoot(log *console.Log, device string) {
	report, repaired, err := fat.RepairDevice(device)
	switch {
	case err != nil:
		log.Printf("boot", "%v.", err)
	case repaired:
		log.Printf("boot", "The file system of %s was repaired after a power cut: %s.", device, report)
	}
}

func mountBoot(m hal.Mounts, device string) error {
	if err := os.MkdirAll(bootDir, 0o755); err != nil {
		return err
	}
	return m.Mount(bootMount(device))
}

// bootMount is how the boot partition is mounted.
func bootMount(device string) hal.Mount {
	return hal.Mount{
		Source: device, Target: bootDir, FSType: "vfat",
		Flags: hal.ReadOnly | hal.NoSuid | hal.NoDev, // services may have their programs here
		Data:  bootOptions,
	}
}

// loaderPartition asks the loader which partition it came from, so that a
// second disk with an image of ours is not taken instead.
func loaderPartition(log *console.Log, m hal.Mounts, b board.Board) string {
	if b.Firmware != board.UEFI {
		return ""
	}
	const dir = "/sys/firmware/efi/efivars"
	err := m.Mount(hal.Mount{Source: "efivarfs", Target: dir, FSType: "efivarfs", Flags: hal.ReadOnly | hal.NoSuid | hal.NoDev | hal.NoExec})
	if err != nil {
		log.Printf("boot", "EFI variables are out of reach, so the boot partition is found by label alone: %v.", err)
		return ""
	}
	variable, err := os.ReadFile(dir + "/LoaderDevicePartUUID-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f")
	if errors.Is(err, fs.ErrNotExist) {
		return "" // not started by systemd-boot
	}
	uuid, err2 := bootpart.LoaderPartition(variable)
	if err = errors.Join(err, err2); err != nil {
		log.Printf("boot", "The loader's partition is unknown, so it is found by label alone: %v.", err)
		return ""
	}
	return uuid
}

func readSector(name string) ([]byte, error) {
	f, err := os.Open(filepath.Join("/dev", name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sector := make([]byte, 512)
	_, err = f.ReadAt(sector, 0)
	return sector, err
}
