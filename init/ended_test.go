package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"machined/init/upgrade"
)

// dump is what a kernel leaves of its last words, the latest of them first.
func (r *rig) dump(t *testing.T, name, text string) {
	t.Helper()
	write(t, r.at(pstoreDir+"/"+name), text)
}

const panicDump = "Panic#1 Part1\n<4>[    2.1] ---\n<0>[    2.0] Kernel panic - not syncing: Requested init /nothing failed (error -2).\n<4>[    2.1] CPU: 0\n"

// TestLastEnd: why a node went down is there after it is up again.
func TestLastEnd(t *testing.T) {
	r := newRig(t)
	if got := r.readEnd("boot-1"); got != (ended{}) {
		t.Errorf("on the first boot the end before is %+v; want none", got)
	}
	mustDo(t, r.beginEnd("boot-1"))
	if got := r.readEnd("boot-2"); got.Reason != "power" {
		t.Errorf("after a cut the end is %+v; want power", got)
	}
	r.dump(t, "dmesg-efi_pstore-1", "Oops#1 Part1\n<4>[    1.0] RIP: 0010:f\n")
	if got := r.readEnd("boot-2"); got.Reason != "power" {
		t.Errorf("after an oops that did not end the machine the end is %+v; want power", got)
	}
	r.dump(t, "dmesg-efi_pstore-1", "Panic#1 Part2\n<4>[    1.0] older\n")
	r.dump(t, "dmesg-efi_pstore-2", panicDump)
	if got := r.readEnd("boot-2"); got.Reason != "panic" || got.Detail != "the kernel has panicked: Requested init /nothing failed (error -2)." {
		t.Errorf("after a panic the end is %+v; want panic, and what the kernel said", got)
	}
	if got := r.readEnd("boot-2"); got.Reason != "power" {
		t.Errorf("the panic is told again: %+v", got)
	}
	r.wasReset(t)
	if got := r.readEnd("boot-2"); got.Reason != "watchdog" {
		t.Errorf("after a reset by the watchdog the end is %+v; want watchdog", got)
	}
	r.watchdog.Reset = false
	r.keepEnd(&request{by: "laptop", reason: "user"})
	if got := r.readEnd("boot-3"); got.Reason != "user" || got.Detail != "asked by laptop" {
		t.Errorf("after a reboot the end is %+v; want user", got)
	}
	if r.readEnd(r.Version().BootID).Reason != "user" {
		t.Error("the end is forgotten")
	}
}

// wasReset has the watchdog have reset the machine before this boot.
func (r *rig) wasReset(t *testing.T) {
	t.Helper()
	_, err := r.watchdog.Start(10)
	mustDo(t, err)
	r.watchdog.Reset = true
	r.node.watchdog = r.watchdog
}

// TestEndOfTrial: a trial that has left no word has ended by what was seen of it,
// and not by the upgrade that it was for. A panic that was not cleared then was told
// of the next power cut.
func TestEndOfTrial(t *testing.T) {
	const noWord = "; slot B was to start and has left no word: its kernel or its init failed, the power was cut, or the firmware did not start it"
	for _, c := range []struct {
		name, said, running string
		panics, resets      bool
		reason              upgrade.Reason
		detail, people      string
	}{
		{"it runs", `"reason":"upgrade","detail":"to version v2","slot":"B"`, "B", false, false, "upgrade", "to version v2", ""},
		{"it panicked", `"reason":"upgrade","detail":"to version v2","slot":"B"`, "A", true, false,
			"panic", "the kernel has panicked: Requested init /nothing failed (error -2).; slot B was to start",
			"panic (the kernel has panicked: Requested init /nothing failed (error -2).; slot B was to start)"},
		{"it hung", `"reason":"upgrade","detail":"to version v2","slot":"B"`, "A", false, true,
			"watchdog", "the hardware's watchdog has reset the machine: the kernel or machined hung, or the kernel panicked; slot B was to start",
			"watchdog (the hardware's watchdog has reset the machine: the kernel or machined hung, or the kernel panicked; slot B was to start)"},
		{"it panicked, and the watchdog was quicker than the restart", `"reason":"upgrade","slot":"B"`, "A", true, true,
			"panic", "the kernel has panicked: Requested init /nothing failed (error -2).; slot B was to start",
			"panic (the kernel has panicked: Requested init /nothing failed (error -2).; slot B was to start)"},
		{"it left nothing", `"reason":"upgrade","detail":"to version v2","slot":"B"`, "A", false, false, "rollback", "to version v2" + noWord, ""},
		{"its first boot panicked, its second runs", `"reason":"upgrade","detail":"to version v2","slot":"B"`, "B", true, false,
			"upgrade", "to version v2; on the way the kernel has panicked: Requested init /nothing failed (error -2).", ""},
		{"it went back, and runs again", `"reason":"rollback","detail":"asked for by laptop","slot":"A"`, "B", false, false,
			"rollback", "asked for by laptop" + strings.Replace(noWord, "slot B", "slot A", 1), ""},
		{"it was asked for by a version that named no slot", `"reason":"upgrade","detail":"to version v2"`, "A", false, false, "upgrade", "to version v2", ""},
		{"it came as far as STATE", ``, "A", false, true,
			"watchdog", "the hardware's watchdog has reset the machine: the kernel or machined hung, or the kernel panicked",
			"watchdog (the hardware's watchdog has reset the machine: the kernel or machined hung, or the kernel panicked)"},
		{"the user restarted, and that hung", `"reason":"user","detail":"asked by laptop"`, "A", false, true,
			"user", "asked by laptop; on the way the hardware's watchdog has reset the machine: the kernel or machined hung, or the kernel panicked",
			"user (asked by laptop; on the way the hardware's watchdog has reset the machine: the kernel or machined hung, or the kernel panicked)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.boot.Slot = c.running
			write(t, r.at(stateDir+"/"+endName), strings.Replace(`{"boot":"boot-1",`+c.said+`}`, ",}", "}", 1))
			if c.panics {
				r.dump(t, "dmesg-efi_pstore-1", panicDump)
			}
			if c.resets {
				r.wasReset(t)
			}
			got := r.readEnd("boot-2")
			if got.Reason != c.reason || got.Detail != c.detail || got.forPeople() != c.people {
				t.Errorf("the end is %s, %q, for people %q;\nwant %s, %q, for people %q", got.Reason, got.Detail, got.forPeople(), c.reason, c.detail, c.people)
			}
			if left, _ := filepath.Glob(r.at(pstoreDir + "/*")); len(left) > 0 {
				t.Errorf("%q are left for the next end", left)
			}
		})
	}
}

// TestEndWithoutState: what was seen is told where nothing was kept, and a damaged
// dump is one of a panic.
func TestEndWithoutState(t *testing.T) {
	r := newRig(t)
	mustDo(t, os.Remove(r.at(stateMarker)))
	r.dump(t, "dmesg-efi_pstore-1.enc.z", "\x78\x9c\xff")
	if got := r.readEnd("boot-2"); got.Reason != "panic" || got.Detail != "the kernel has panicked" {
		t.Errorf("without STATE the end is %+v; want panic", got)
	}
}

// TestSlotToStart: what is to start next is kept, where that matters.
func TestSlotToStart(t *testing.T) {
	r := newRig(t)
	for _, slot := range []string{"B", ""} {
		r.keepEnd(&request{by: "machined", reason: "upgrade", slot: slot})
		text, err := r.files.Read(r.at(stateDir + "/" + endName))
		mustDo(t, err)
		if got := strings.Contains(string(text), `"slot":"B"`); got != (slot == "B") {
			t.Errorf("a restart into slot %q is kept as %s", slot, text)
		}
	}
}
