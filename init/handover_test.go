package main

import (
	"strings"
	"testing"
)

func TestHandover(t *testing.T) {
	full := handover{
		Board: "rpi-3a-plus", Slot: "B", BootPartition: "/dev/mmcblk0p1", BootDisk: "mmcblk0",
		WatchdogFD: 3, WatchdogSecs: 15, Image: "cafe", ListenerFD: 7,
		Netbooted: true, Server: "https://10.0.0.1:8443", Token: "cafe",
	}
	none := handover{WatchdogFD: -1, ListenerFD: -1}
	for _, h := range []handover{full, none, {}, {Board: "a=b", Slot: "A", WatchdogFD: -1}} {
		// The kernel's own variables come before.
		environ := append([]string{"HOME=/", "TERM=linux", "machined.slot=A", "MACHINED", ""}, h.environ()...)
		if got, err := parseHandover(environ); got != h || err != nil {
			t.Errorf("parseHandover(%q) = %+v, %v; want %+v", environ, got, err, h)
		}
	}
	if got, err := parseHandover([]string{"MACHINED_FUTURE=1"}); got != none || err != nil {
		t.Errorf("parseHandover of a later version = %+v, %v; want %+v", got, err, none)
	}
	for _, bad := range []string{"WATCHDOG_FD=", "WATCHDOG_FD=x", "WATCHDOG_SECS=1s", "LISTENER_FD=99999999999999999999", "NETBOOTED=maybe"} {
		got, err := parseHandover([]string{handoverPrefix + bad})
		key, _, _ := strings.Cut(bad, "=")
		if got != none || err == nil || !strings.Contains(err.Error(), handoverPrefix+key) {
			t.Errorf("parseHandover(%s) = %+v, %v; want an error that names it", bad, got, err)
		}
	}
}

// TestHandoverOfResident checks that the successor does not take itself for the
// copy in the initramfs, which would have it succeed itself for ever.
func TestHandoverOfResident(t *testing.T) {
	h, err := parseHandover(handover{Resident: true, WatchdogFD: -1, ListenerFD: -1}.environ())
	if err != nil || h.Resident {
		t.Errorf("parseHandover of a resident = %+v, %v; want it not resident", h, err)
	}
}

func FuzzHandover(f *testing.F) {
	f.Add("rpi-3a-plus", "A", "/dev/mmcblk0p1", "mmcblk0", 3, 15, "cafe", 7, "MACHINED_SLOT=B")
	f.Add("", "=", "\n", "MACHINED_BOARD=x", -1, 0, "", -1, "=")
	f.Fuzz(func(t *testing.T, board, slot, partition, disk string, dog, secs int, image string, listener int, other string) {
		h := handover{
			Board: board, Slot: slot, Image: image, BootPartition: partition, BootDisk: disk,
			WatchdogFD: dog, WatchdogSecs: secs, ListenerFD: listener,
		}
		if got, err := parseHandover(h.environ()); got != h || err != nil {
			t.Errorf("parseHandover(%q) = %+v, %v; want %+v", h.environ(), got, err, h)
		}
		// Whatever else is there, an error is all that it can do.
		if got, err := parseHandover([]string{other, handoverPrefix + other}); err != nil && (got.WatchdogFD != -1 || got.ListenerFD != -1) {
			t.Errorf("parseHandover(%q) = %+v, %v; want no descriptors with an error", other, got, err)
		}
	})
}
