package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"machined/api"
	"machined/hal"
	"machined/init/sequence"
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
	// First the right to reset, then the word of it in STATE, then the ending. A
	// word that came first would be acted on by the next boot though the reset was
	// refused; one that came last might be lost with the power.
	if err := n.lock.Take(sequence.Reset); err != nil {
		return fmt.Errorf("%w: %w", api.ErrBusy, err)
	}
	takeBack, err := n.noteReset(word)
	if err == nil {
		err = n.want(request{end: restart, by: by, reason: upgrade.ByReset, detail: "asked by " + by, reset: mode})
	}
	if err != nil {
		err = errors.Join(err, takeBack())
		n.lock.Release(sequence.Reset)
	}
	return err
}

// noteReset puts the word of a reset into STATE, where there is one, and returns
// what takes it back: to nothing, or to that of an earlier reset that was cut and
// is yet to be finished.
func (n *node) noteReset(word string) (takeBack func() error, err error) {
	path := n.stateFile(resetName)
	if path == "" {
		return func() error { return nil }, nil
	}
	before, err := n.files.Read(path)
	takeBack = func() error { return n.files.Replace(path, before, false) }
	switch {
	case errors.Is(err, hal.ErrNotFound):
		takeBack = func() error { return n.files.Remove(path) }
	case err != nil:
		takeBack = func() error { return nil } // what cannot be read is a reset too, see finishReset
	}
	if err := n.files.Replace(path, []byte(word), false); err != nil {
		return takeBack, fmt.Errorf("note the reset in STATE, for a boot after a power cut: %w", err)
	}
	return takeBack, nil
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

// clearState removes from STATE what is not the node's identity, and then the word
// that this is to be done.
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

// unmountForReset unmounts what holds data, and takes what a reset is to take.
// EPHEMERAL goes first: as long as STATE has the word, the next boot knows what is
// left to do. moved is told of each step.
func (n *node) unmountForReset(mode resetMode, disks map[hal.DataVolume]string, moved func()) {
	if mode == resetButIdentity {
		n.unmountAll(stateDir)
		moved()
		n.erase(hal.EphemeralVolume, disks, moved)
		if err := n.clearState(); err != nil {
			n.log.Printf("reset", "%v.", err)
		}
		moved()
	}
	n.unmountAll()
	if mode == resetAll {
		moved()
		n.erase(hal.EphemeralVolume, disks, moved)
		n.erase(hal.StateVolume, disks, moved)
	}
}

// erase makes a volume blank that is not mounted, and that a disk has.
func (n *node) erase(v hal.DataVolume, disks map[hal.DataVolume]string, moved func()) {
	disk, ok := disks[v]
	if !ok {
		return
	}
	n.log.Printf("reset", "Erasing %s on %s.", v, disk)
	if err := n.provisioner.Erase(disk, v, moved); err != nil {
		n.log.Printf("reset", "%v.", err)
	}
}
