package main

import (
	"strings"
	"testing"
)

func TestParseBootArgs(t *testing.T) {
	for _, c := range []struct {
		cmdline string
		want    bootArgs
	}{
		{"", bootArgs{Watchdog: true}},
		{"console=ttyAMA0,115200 quiet\n", bootArgs{Watchdog: true}},
		{"machined.slot=A", bootArgs{Slot: "A", Watchdog: true}},
		{"machined.slot=A machined.slot=B", bootArgs{Slot: "B", Watchdog: true}},
		{"machined.slot=C machined.slot=../etc machined.slot=a", bootArgs{Watchdog: true}}, // it becomes part of a path
		{"machined.slot=A machined.slot=", bootArgs{Slot: "A", Watchdog: true}},
		{"machined.board=rpi-3a-plus\tmachined.watchdog=off", bootArgs{Board: "rpi-3a-plus"}},
		{"machined.watchdog=off machined.watchdog=on", bootArgs{Watchdog: true}},
		{"machined.watchdog", bootArgs{Watchdog: true}},
		{"machined.image=cafe machined.slot=A", bootArgs{Slot: "A", Image: "cafe", Watchdog: true}},
		{"machined.netboot=https://10.0.0.1:8443 machined.token=cafe", bootArgs{Netboot: "https://10.0.0.1:8443", Token: "cafe", Watchdog: true}},
		{"xmachined.slot=A machined.slot.x=B machined.slotA", bootArgs{Watchdog: true}},
	} {
		if got := parseBootArgs(c.cmdline); got != c.want {
			t.Errorf("parseBootArgs(%q) = %+v; want %+v", c.cmdline, got, c.want)
		}
	}
}

func TestFindBoard(t *testing.T) {
	if _, err := findBoard(bootArgs{Board: "toaster"}); err == nil || !strings.Contains(err.Error(), "machined.board=toaster is unknown; known are ") {
		t.Errorf("findBoard(toaster) = %v; want an error that names the boards", err)
	}
	b, err := findBoard(bootArgs{Board: "rpi-3a-plus"})
	if err != nil || b.Name != "rpi-3a-plus" {
		t.Errorf("findBoard(rpi-3a-plus) = %+v, %v; want that board", b, err)
	}
}
