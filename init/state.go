package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"machined/hal"
	"machined/hal/linux/volume"
	"machined/reconcile/block"
	"machined/reconcile/resource"
)

const (
	stateDir = "/system/state"
	// stateMarker is on STATE, so that whoever sees it sees the volume and not
	// the bare mount point.
	stateMarker  = stateDir + "/.machined"
	ephemeralDir = "/var"
	// stateWait bounds the wait of services for STATE: it may be on a disk that
	// never comes.
	stateWait = time.Minute
)

// state is how far what hangs on STATE has come.
type state struct {
	mounted bool
	// late: it was not there when the config was read.
	late  bool
	ready bool // it is mounted, and what hangs on it was done
	// settled is set when it is ready, or is known not to come.
	settled bool
	seen    uint64 // of the volumes
}

// mountState mounts a STATE that is on the boot disk already, so that the
// config and the identity in it are there from the start. Any other case is
// left to the controllers.
func (n *node) mountState() error {
	mounts, err := n.mounts.List()
	if err != nil {
		return err
	}
	if _, ok := mountedAt(mounts, stateDir); ok {
		n.state.mounted = true
		return n.markState()
	}
	if n.boot.BootDisk == "" {
		return nil
	}
	path := "/dev/" + n.boot.BootDisk
	disk, size, err := volume.Open(path)
	if err != nil {
		return err
	}
	extent, err := volume.Find(disk, size, block.State)
	if err = errors.Join(err, disk.Close()); errors.Is(err, hal.ErrNotFound) {
		return nil
	} else if err != nil {
		return fmt.Errorf("look for STATE on %s: %w", path, err)
	}
	device, err := n.disks.AddPartition(path, extent.Number, extent.Start, extent.Size)
	if err != nil {
		return err
	}
	// The slot has the mount point; the initramfs gets it here.
	if err := os.MkdirAll(n.at(stateDir), 0o755); err != nil {
		return err
	}
	err = n.mounts.Mount(hal.Mount{Source: device, Target: stateDir, FSType: "ext4", Flags: hal.NoSuid | hal.NoDev | hal.NoExec})
	if err != nil {
		return err
	}
	n.state.mounted = true
	// The power may have gone between the first mount and this.
	return errors.Join(n.disks.GrowExt4(stateDir, extent.Size), n.markState())
}

// markState makes STATE private and recognisable. A STATE that is so already is
// not written to: a boot must not wear the card.
func (n *node) markState() error {
	if _, err := os.Stat(n.at(stateMarker)); err == nil {
		return nil
	}
	if err := os.Chmod(n.at(stateDir), 0o700); err != nil {
		return err
	}
	return os.WriteFile(n.at(stateMarker), nil, 0o600)
}

// followState does what waits for STATE when that has come, or is known not to
// come.
func (n *node) followState() {
	seq := n.store.Seq(resource.VolumeStatusKind)
	if n.state.ready || seq == n.state.seen {
		return
	}
	n.state.seen = seq
	v, _, _ := n.store.Volumes.Get(resource.Named(block.State))
	switch v.Phase {
	case block.Ready:
		n.state.late = !n.state.mounted
		n.state.mounted, n.state.ready, n.state.settled = true, true, true
		if err := n.markState(); err != nil {
			n.log.Printf("state", "%v.", err)
		}
		n.withState()
	case block.Failed:
		// It is tried again. Services wait as for a disk that is late: they must
		// not start by the card's config when the next try may bring STATE's.
		if n.servicesBy == 0 {
			n.settle()
		}
	case block.Refused:
		n.settle()
	}
}

// settle goes on without STATE.
func (n *node) settle() {
	if !n.state.settled {
		n.state.settled = true
		n.withState()
	}
}

// withState takes from STATE what was not there at the start, and gives it what
// it is to keep. Without STATE it makes do.
func (n *node) withState() {
	if err := n.raiseToKept(); err != nil {
		n.log.Printf("clock", "%v.", err)
	}
	if _, err := os.Stat(n.at(stateDir + "/" + configName)); n.state.late && !errors.Is(err, fs.ErrNotExist) {
		n.lateConfig()
	}
	if n.identity == nil || n.state.ready && !n.identity.kept {
		if err := n.loadIdentity(); err != nil {
			n.log.Printf("identity", "%v.", err)
		}
		n.clockSets = 0 // its certificate has not been looked at
	}
	if n.server == nil {
		if err := n.startAPI(); err != nil {
			n.log.Printf("api", "%v.", err)
		}
	}
	if !n.boot.Resident {
		n.startUpgrades()
		n.finishReset()
	}
}

// lateConfig reads the config that came with STATE, and does anew what was done
// by another one. The controllers follow by themselves.
func (n *node) lateConfig() {
	source := n.loaded.Source
	if err := n.loadConfig(); err != nil {
		n.log.Printf("config", "%v.", err)
		return
	}
	if n.loaded.Source == source {
		return // that of STATE was rejected
	}
	n.log.Printf("config", "It is that of %s from now on.", n.loaded.Source)
	n.useConfig()
}

// holdServices keeps the services back until STATE has settled: their config
// may be in it.
func (n *node) holdServices() error {
	n.servicesBy = n.clock.SinceBoot() + int64(stateWait)
	n.newSupervisor()
	return nil
}

// releaseServices starts the services when it is time.
func (n *node) releaseServices(now int64) {
	if n.servicesBy == 0 || !n.state.settled && now < n.servicesBy {
		return
	}
	n.settle()
	n.servicesBy = 0
	if err := n.prepareServices(); err != nil {
		n.log.Printf("services", "%v.", err)
	}
}
