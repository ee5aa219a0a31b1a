package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"machined/api"
	"machined/hal"
	"machined/init/upgrade"
	"machined/reconcile/resource"
)

// resetMode is what a restart takes from the node.
type resetMode uint8

const (
	resetNone resetMode = iota
	resetAll
	// resetButIdentity keeps the keys and certificates.
	resetButIdentity
)

const (
	// resetName is the file in STATE that says that a reset was asked for. One that
	// was cut is finished by the next boot.
	resetName    = "reset"
	keepIdentity = "keep the identity\n"
)

// Reset is a part of api.Upgrades.
func (n *node) Reset(by string, keep bool) error {
	if m := n.upgrades.get(); m != nil && m.Busy() {
		return &api.Failure{Cause: api.NotNow, Err: fmt.Errorf("%w; reset the node when that has ended", upgrade.ErrBusy)}
	}
	mode, word := resetAll, ""
	if keep {
		mode, word = resetButIdentity, keepIdentity
	}
	if path := n.stateFile(resetName); path != "" {
		if err := n.files.Replace(path, []byte(word), false); err != nil {
			return fmt.Errorf("reset: %w", err)
		}
	}
	return n.askFor(request{end: restart, by: by, reason: upgrade.ByReset, detail: "asked by " + by, reset: mode})
}

// finishReset asks for the rest of a reset that was cut.
func (n *node) finishReset() {
	path := n.stateFile(resetName)
	if path == "" {
		return
	}
	word, err := n.files.Read(path)
	if errors.Is(err, hal.ErrNotFound) {
		return
	}
	mode := resetAll
	if err != nil || string(word) == keepIdentity {
		mode = resetButIdentity // in doubt the owner can still reach the node
	}
	n.log.Printf("reset", "Finishing one that was cut.")
	if err := n.askFor(request{end: restart, by: "machined", reason: upgrade.ByReset, detail: "to finish it", reset: mode}); err != nil {
		n.log.Printf("reset", "%v.", err)
	}
}

// volumeDisks returns the disks of the volumes that are there, by their volumes.
func (n *node) volumeDisks() map[hal.DataVolume]string {
	disks := make(map[hal.DataVolume]string)
	for _, v := range []hal.DataVolume{hal.EphemeralVolume, hal.StateVolume} {
		status, _, ok := n.store.Volumes.Get(resource.Named(v.String()))
		if !ok || status.Device == "" {
			continue
		}
		for i := range n.store.Discovered.Len() {
			if d, _ := n.store.Discovered.At(i); d.Device == status.Device {
				disks[v] = "/dev/" + d.Disk
			}
		}
	}
	return disks
}

// clearState removes from STATE what is not the node's identity, and the word that
// this is to be done last.
func (n *node) clearState() error {
	if n.stateFile("") == "" {
		return errors.New("STATE is not mounted")
	}
	entries, err := os.ReadDir(n.at(stateDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch path := filepath.Join(stateDir, e.Name()); path {
		case statePKI, stateMarker, bundleMark, stateDir + "/lost+found", stateDir + "/" + resetName, stateDir + "/" + endName:
		default:
			if err := os.RemoveAll(n.at(path)); err != nil {
				return err
			}
		}
	}
	n.mounts.Sync()
	return os.Remove(n.at(stateDir + "/" + resetName))
}

// wipe takes from an unmounted disk what a reset is to take. EPHEMERAL goes first:
// as long as STATE is there, the next boot knows what is left to do.
func (n *node) wipe(mode resetMode, disks map[hal.DataVolume]string) {
	for _, v := range []hal.DataVolume{hal.EphemeralVolume, hal.StateVolume} {
		disk, ok := disks[v]
		if !ok || v == hal.StateVolume && mode == resetButIdentity {
			continue
		}
		n.log.Printf("reset", "Erasing %s on %s.", v, disk)
		if err := n.provisioner.Erase(disk, v); err != nil {
			n.log.Printf("reset", "%v.", err)
		}
	}
}
