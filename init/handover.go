package main

import (
	"fmt"
	"strconv"
	"strings"
)

// handover is what one start of the program tells the next, through its
// environment. That starts empty: the kernel passes unknown arguments on as
// variables, and none of them may pose as a fact found by stage 1.
type handover struct {
	Board         string
	Slot          string // "A" or "B"; empty when the command line has no marker
	Image         string // SHA-256 of the slot's system image, in hex; may be empty
	BootPartition string // device path of the mounted boot partition
	BootDisk      string // kernel name of its disk
	WatchdogFD    int    // -1 when there is no watchdog
	WatchdogSecs  int    // time-out that the hardware took
	// Resident says that the program runs from the initramfs's copy in RAM,
	// which it gives up for the slot's once the API is there.
	Resident bool
	// ListenerFD is the API's listening socket, -1 when there is none yet.
	ListenerFD int
	// Netbooted says that the system came in the initramfs: there is no boot
	// partition and no slot.
	Netbooted bool
	Server    string // the netboot server's URL as the kernel was given it; may be empty
	Token     string // for that server; never to be printed
}

// system names what runs, for people.
func (h handover) system() string {
	if h.Netbooted {
		return "the netboot image"
	}
	return "slot " + h.Slot
}

const handoverPrefix = "MACHINED_"

// environ encodes h.
func (h handover) environ() []string {
	return []string{
		handoverPrefix + "BOARD=" + h.Board,
		handoverPrefix + "SLOT=" + h.Slot,
		handoverPrefix + "IMAGE=" + h.Image,
		handoverPrefix + "BOOT_PARTITION=" + h.BootPartition,
		handoverPrefix + "BOOT_DISK=" + h.BootDisk,
		handoverPrefix + "WATCHDOG_FD=" + strconv.Itoa(h.WatchdogFD),
		handoverPrefix + "WATCHDOG_SECS=" + strconv.Itoa(h.WatchdogSecs),
		handoverPrefix + "LISTENER_FD=" + strconv.Itoa(h.ListenerFD),
		handoverPrefix + "NETBOOTED=" + strconv.FormatBool(h.Netbooted),
		handoverPrefix + "NETBOOT_SERVER=" + h.Server,
		handoverPrefix + "NETBOOT_TOKEN=" + h.Token,
	}
}

// parseHandover decodes what environ made; other variables are passed over.
func parseHandover(environ []string) (handover, error) {
	h := handover{WatchdogFD: -1, ListenerFD: -1}
	for _, e := range environ {
		rest, ours := strings.CutPrefix(e, handoverPrefix)
		key, value, _ := strings.Cut(rest, "=")
		if !ours {
			continue
		}
		var err error
		switch key {
		case "BOARD":
			h.Board = value
		case "SLOT":
			h.Slot = value
		case "IMAGE":
			h.Image = value
		case "BOOT_PARTITION":
			h.BootPartition = value
		case "BOOT_DISK":
			h.BootDisk = value
		case "WATCHDOG_FD":
			h.WatchdogFD, err = strconv.Atoi(value)
		case "WATCHDOG_SECS":
			h.WatchdogSecs, err = strconv.Atoi(value)
		case "LISTENER_FD":
			h.ListenerFD, err = strconv.Atoi(value)
		case "NETBOOTED":
			h.Netbooted, err = strconv.ParseBool(value)
		case "NETBOOT_SERVER":
			h.Server = value
		case "NETBOOT_TOKEN":
			h.Token = value
		}
		if err != nil {
			return handover{WatchdogFD: -1, ListenerFD: -1}, fmt.Errorf("read %s%s=%q from stage 1: %w", handoverPrefix, key, value, err)
		}
	}
	return h, nil
}
