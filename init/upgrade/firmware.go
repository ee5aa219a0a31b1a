package upgrade

import (
	"encoding/json"
	"errors"
	"fmt"

	"machined/hal"
)

// firmware is what STATE keeps of how the firmware takes the request for a trial.
type firmware struct {
	Trials string `json:"trials,omitempty"` // one of the two below; empty while not known
	// Probes counts the restarts that were to tell.
	Probes int `json:"probes,omitempty"`
}

const (
	firmwareName = "firmware.json"

	trialsHonoured = "honoured"
	trialsIgnored  = "ignored"

	// maxProbes is how often a trial of the running slot has to fail for the
	// firmware to be taken for one that ignores the request: a power cut looks
	// the same, and what follows is less safe.
	maxProbes = 3
)

// firmware returns what is known. Nothing is where there is nobody to ask.
func (m *Manager) firmware() firmware {
	path := m.OnState(firmwareName)
	if m.Prober == nil || path == "" {
		return firmware{}
	}
	text, err := m.Files.Read(path)
	if errors.Is(err, hal.ErrNotFound) {
		return firmware{}
	}
	var f firmware
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil {
		m.Say("What %s says of the firmware is passed over: %v.", path, err)
		return firmware{}
	}
	return f
}

func (m *Manager) keepFirmware(f firmware) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if err := m.Files.Replace(m.OnState(firmwareName), append(text, '\n'), false); err != nil {
		return fmt.Errorf("keep what is known of the firmware: %w", err)
	}
	return nil
}

// honoured notes that the firmware has made a trial.
func (m *Manager) honoured() error {
	if m.Prober == nil || m.Kexec || m.OnState(firmwareName) == "" || m.firmware().Trials != "" {
		return nil
	}
	return m.keepFirmware(firmware{Trials: trialsHonoured})
}

// Ignored reports whether the firmware is known to ignore the request for a trial.
func (m *Manager) Ignored() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ignored
}

// probe finds out why a version has not run: it failed at once, or the firmware
// never tried it. It reports whether the node restarts for that.
func (m *Manager) probe(r record) (restarts bool) {
	if m.Prober == nil || r.Kexec || r.Attempts > 0 || m.OnState(firmwareName) == "" {
		return false
	}
	f := m.firmware()
	if f.Trials != "" {
		return false
	}
	again := false
	switch {
	case m.Probed:
		f = firmware{Trials: trialsHonoured}
	case f.Probes >= maxProbes:
		f.Trials = trialsIgnored
		m.Say("The firmware ignores the request for a trial: upgrades change the default first from now on.")
	default:
		f.Probes++
		again = true
	}
	err := m.keepFirmware(f)
	if err == nil && f.Trials == trialsIgnored {
		m.Prober.FlipFirst()
		m.edit(func() { m.ignored = true })
	}
	if err == nil && again {
		err = m.askFirmware(r, f.Probes)
	}
	if err != nil {
		m.Say("%v.", err)
		return false
	}
	return again
}

// askFirmware restarts into a trial of the running slot.
func (m *Manager) askFirmware(r record, n int) error {
	argument, err := m.Prober.ProbeTrial(m.Slot)
	if err != nil {
		return fmt.Errorf("find out whether the firmware makes trials: %w", err)
	}
	r.Message = waiting
	if err := m.note(r); err != nil {
		return err
	}
	doing := fmt.Sprintf("version %s has left no trace: finding out whether the firmware makes trials, restart %d of %d at most", r.ToVersion, n, maxProbes)
	m.Say("%s.", doing)
	m.edit(func() { m.status.Message = doing })
	return m.Reboot(Restart{Reason: ByUpgrade, Detail: doing, Slot: m.Slot, Argument: argument})
}
