package main

import (
	"encoding/json"
	"errors"
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

// readEnd returns how the boot before this one ended.
func (n *node) readEnd(bootID string) ended {
	path := n.stateFile(endName)
	if path == "" {
		return ended{}
	}
	var e ended
	text, err := n.files.Read(path)
	if errors.Is(err, hal.ErrNotFound) {
		return ended{} // the first boot
	}
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	if err != nil {
		n.log.Printf("state", "How the last boot ended is unknown: %v.", err)
		return ended{}
	}
	if e.Boot == bootID || e.Reason != "" {
		return e
	}
	e.Reason, e.Detail = n.endWithoutWord()
	return e
}

// pstoreDir has what a kernel that panicked has left with the firmware.
const pstoreDir = "/sys/fs/pstore"

// endWithoutWord looks for what the hardware and the firmware have kept.
func (n *node) endWithoutWord() (upgrade.Reason, string) {
	if n.watchdog != nil {
		if did, err := n.watchdog.DidReset(); err == nil && did {
			return upgrade.ByWatchdog, "the hardware's watchdog has reset the machine: the kernel or machined hung"
		}
	}
	if panics, _ := filepath.Glob(n.at(pstoreDir + "/dmesg-*")); len(panics) > 0 {
		for _, p := range panics {
			_ = os.Remove(p) // the firmware has little room
		}
		return upgrade.ByPanic, "the kernel has panicked"
	}
	return upgrade.ByPower, "without a word: the power was cut, or the kernel failed"
}

// beginEnd notes that this boot has begun.
func (n *node) beginEnd(bootID string) error { return n.writeEnd(ended{Boot: bootID}) }

// keepEnd notes why this boot ends.
func (n *node) keepEnd(r *request) {
	detail := r.detail
	if detail == "" {
		detail = "asked by " + r.by
	}
	if err := n.writeEnd(ended{Boot: n.Version().BootID, Reason: r.reason, Detail: detail}); err != nil {
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
