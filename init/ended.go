package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"machined/hal"
	"machined/init/upgrade"
)

// ended is how a boot ended, as STATE keeps it for the next one.
type ended struct {
	Boot   string         `json:"boot"` // id of the boot that it is about
	Reason upgrade.Reason `json:"reason,omitempty"`
	Detail string         `json:"detail,omitempty"`
	// Slot was to start next, empty where any will do.
	Slot string `json:"slot,omitempty"`
}

// endName is the file in STATE. A boot writes its id into it; an end that is asked
// for adds why. What has an id alone ended without a word.
const endName = "last-boot.json"

func (e ended) forPeople() string {
	if e.Reason == "" || e.Reason == upgrade.ByRollback || e.Reason == upgrade.ByUpgrade {
		return "" // the upgrade says it better
	}
	return strings.TrimSuffix(string(e.Reason)+" ("+e.Detail+")", " ()")
}

// readEnd returns how the boot before this one ended. What there is to see of that
// is looked for first, and cleared: left lying, it would be told of a later end.
func (n *node) readEnd(bootID string) ended {
	seen := n.evidence()
	path := n.stateFile(endName)
	if path == "" {
		return seen
	}
	var said ended
	text, err := n.files.Read(path)
	if errors.Is(err, hal.ErrNotFound) {
		return ended{} // the first boot: what was seen is somebody else's
	}
	if err == nil {
		err = json.Unmarshal(text, &said)
	}
	if err != nil {
		n.log.Printf("state", "How the last boot ended is unknown: %v.", err)
		return seen
	}
	if said.Boot == bootID {
		return said
	}
	return judge(said, seen, n.boot.Slot)
}

// judge makes one of what a boot has said of its end and of what was seen after it.
// Between the two there may have been boots that did not get as far as STATE: those
// of a slot that was to start, when it is another one that runs now.
func judge(said, seen ended, running string) ended {
	lost := said.Slot != "" && said.Slot != running
	switch {
	case said.Reason == "" && seen.Reason == "":
		said.Reason, said.Detail = upgrade.ByPower, "without a word: the power was cut, or the kernel failed"
	case said.Reason == "":
		said.Reason, said.Detail = seen.Reason, seen.Detail
	case lost && seen.Reason != "":
		said.Reason, said.Detail = seen.Reason, seen.Detail+"; slot "+said.Slot+" was to start"
	case lost:
		said.Reason = upgrade.ByRollback
		said.Detail += fmt.Sprintf("; slot %s was to start and has left no word: its kernel or its init failed, the power was cut, or the firmware did not start it", said.Slot)
	case seen.Reason != "":
		said.Detail += "; on the way " + seen.Detail
	}
	return said
}

// evidence is what the hardware and the firmware have kept of an end, without a
// reason where that is nothing. The watchdog may run out while a kernel that has
// panicked waits for its restart: then it is the panic that counts.
func (n *node) evidence() ended {
	panicked, why := n.takePanic()
	reset := false
	if n.watchdog != nil {
		did, err := n.watchdog.DidReset()
		reset = err == nil && did
	}
	switch {
	case panicked:
		return ended{Reason: upgrade.ByPanic, Detail: strings.TrimSuffix("the kernel has panicked: "+why, ": ")}
	case reset:
		return ended{Reason: upgrade.ByWatchdog, Detail: "the hardware's watchdog has reset the machine: the kernel or machined hung, or the kernel panicked"}
	}
	return ended{}
}

const (
	// pstoreDir has what a kernel that panicked has left with the firmware.
	pstoreDir = "/sys/fs/pstore"
	// panicWord is what a kernel says before the reason.
	panicWord = "Kernel panic - not syncing: "
	// maxPanic is how much of the reason is kept, in bytes.
	maxPanic = 120
)

// takePanic returns whether a kernel has panicked, and what it said. It removes what
// tells of it: the firmware has little room.
func (n *node) takePanic() (panicked bool, why string) {
	dumps, _ := filepath.Glob(n.at(pstoreDir + "/dmesg-*"))
	for _, path := range dumps {
		text, readErr := os.ReadFile(path)
		if err := os.Remove(path); err != nil {
			n.log.Printf("state", "What the kernel said will be told of the next boot again: %v.", err)
		}
		// The first line says what has led to the dump. An oops does, too, and the
		// machine goes on.
		if readErr == nil && strings.HasPrefix(string(text), "Oops#") {
			continue
		}
		panicked = true
		if _, said, ok := strings.Cut(string(text), panicWord); ok {
			said, _, _ = strings.Cut(said, "\n")
			why = strings.ToValidUTF8(said[:min(len(said), maxPanic)], "?")
		}
	}
	return panicked, why
}

// beginEnd notes that this boot has begun.
func (n *node) beginEnd(bootID string) error { return n.writeEnd(ended{Boot: bootID}) }

// keepEnd notes why this boot ends.
func (n *node) keepEnd(r *request) {
	detail := r.detail
	if detail == "" {
		detail = "asked by " + r.by
	}
	if err := n.writeEnd(ended{Boot: n.Version().BootID, Reason: r.reason, Detail: detail, Slot: r.slot}); err != nil {
		n.log.Printf("state", "%v.", err)
	}
}

func (n *node) writeEnd(e ended) error {
	path := n.stateFile(endName)
	if path == "" {
		return nil
	}
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return n.files.Replace(path, append(text, '\n'), false)
}
