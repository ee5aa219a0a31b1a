package upgrade

import (
	"encoding/json"
	"errors"
	"fmt"

	"machined/hal"
)

// Phase is how far an upgrade has come.
type Phase string

const (
	Idle       Phase = "Idle"
	Receiving  Phase = "Receiving"
	Verifying  Phase = "Verifying"
	Staged     Phase = "Staged"    // on the disk, not tried yet
	Trying     Phase = "Trying"    // rebooting into it, or running and not proven yet
	Committed  Phase = "Committed" // what boots from now on
	RolledBack Phase = "RolledBack"
	Failed     Phase = "Failed" // the running system was not left
)

// record is what STATE keeps of the last upgrade: it outlasts the boots that it
// consists of.
type record struct {
	Phase       Phase  `json:"phase"`
	From        string `json:"from"` // slots
	To          string `json:"to"`
	FromVersion string `json:"from_version"`
	ToVersion   string `json:"to_version"`
	// Manual waits for a commit by hand.
	Manual bool `json:"manual,omitempty"`
	// Kexec has the running system start it, and not the firmware. Healthy says
	// that it was, for long enough.
	Kexec   bool `json:"kexec,omitempty"`
	Healthy bool `json:"healthy,omitempty"`
	// Attempts counts the boots of To that got as far as STATE.
	Attempts int `json:"attempts,omitempty"`
	// Boot is the id of the last of them.
	Boot string `json:"boot,omitempty"`
	// Message is why it is where it is.
	Message string `json:"message,omitempty"`
}

// recordName is the record's file in STATE.
const recordName = "upgrade.json"

// load returns the record in STATE, an empty one if there is none. One that
// cannot be read is reported and passed over: the firmware's files say the rest.
func (m *Manager) load() record {
	path := m.OnState(recordName)
	if path == "" {
		return record{}
	}
	text, err := m.Files.Read(path)
	if errors.Is(err, hal.ErrNotFound) {
		return record{}
	}
	var r record
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		m.Say("What %s says of the last upgrade is passed over: %v.", path, err)
		return record{}
	}
	return r
}

// save writes the record. Without STATE there is nowhere to keep it, which an
// upgrade survives: only the reason of a rollback is lost.
func (m *Manager) save(r record) error {
	path := m.OnState(recordName)
	if path == "" {
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := m.Files.Replace(path, append(text, '\n'), false); err != nil {
		return fmt.Errorf("keep the state of the upgrade: %w", err)
	}
	return nil
}
