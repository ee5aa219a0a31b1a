package main

import (
	"errors"

	"machined/hal"
	"machined/hal/fake"
)

// errCut is what a provisioning returns in the middle of which the power goes.
const errCut hal.Error = "the power is cut"

// mounts are what the node sees of hal.Mounts.
type mounts struct {
	*fake.Mounts
	w *world
}

func (m mounts) Mount(c hal.Mount) error {
	if err := m.w.enter("mounts"); err != nil {
		return err
	}
	if m.w.sabotage == loseFlags {
		c.Flags = 0
	}
	err := m.Mounts.Mount(c)
	m.w.note("Mount(%s, %s) = %v", c.Source, c.Target, err)
	return err
}

func (m mounts) Unmount(target string, lazy bool) error {
	if err := m.w.enter("mounts"); err != nil {
		return err
	}
	err := m.Mounts.Unmount(target, lazy)
	m.w.note("Unmount(%s, %v) = %v", target, lazy, err)
	return err
}

func (m mounts) List() ([]hal.MountInfo, error) {
	if err := m.w.enter("mounts"); err != nil {
		return nil, err
	}
	return m.Mounts.List()
}

// disks are what the node sees of hal.Disks.
type disks struct {
	*fake.Disks
	w *world
}

func (d disks) GrowExt4(target string, size int64) error {
	if err := d.w.enter("disks"); err != nil {
		return err
	}
	return d.Disks.GrowExt4(target, size)
}

// jobs are what the node sees of hal.Jobs. Those of time servers end within
// seconds, as package hal promises; others may hang.
type jobs struct {
	w     *world
	inner *fake.Jobs
	quick bool
}

func (j jobs) Ended() uint64 { return j.inner.Ended() }

func (j jobs) Start(run func() error) hal.Job {
	w, order := j.w, j.w.orders()
	stuck, slow := j.inner.Stuck, w.slow
	if j.quick {
		j.inner.Stuck, w.slow = false, min(slow, 8*second)
	}
	job := j.inner.Start(func() error {
		w.ledger.order = order
		return run()
	})
	j.inner.Stuck, w.slow = stuck, slow
	return job
}

// provisioner is what the node sees of hal.Provisioner.
type provisioner struct{ w *world }

// Erase is for a reset, which the simulated node has none of: a controller that
// calls it destroys without consent.
func (p provisioner) Erase(disk string, which hal.DataVolume, _ func()) error {
	p.w.fail("consent", "%s of %s is erased", which, disk)
	return hal.ErrInvalid
}

// Install is for a person to ask for: a controller that calls it destroys without
// consent, too.
func (p provisioner) Install(i hal.Install) error {
	p.w.fail("consent", "%s is installed on", i.Disk)
	return hal.ErrInvalid
}

func (p provisioner) Provision(r hal.Provision) error {
	w := p.w
	if err := w.enter("provisioner"); err != nil {
		return err
	}
	if at := w.at(r.Disk); at == nil || at != w.ledger.order.byPath(r.Disk) {
		return hal.ErrNoDevice // it was opened when the job started
	}
	r.Wipe = r.Wipe || w.sabotage == wipeAlways
	w.counts.provisions++
	if r.Wipe {
		w.counts.wipes++
	}
	before := w.inventory()
	err := w.provisioner.Provision(r)
	w.note("Provision(%s, wipe=%v) = %v", r.Disk, r.Wipe, err)
	if w.sabotage == remakeVolumes {
		w.remake(r.Disk)
	}
	w.audit(r, before)
	if errors.Is(err, errCut) {
		w.dead = true
		w.counts.cuts++
	}
	return err
}

// remake formats a volume that is there, as a provisioner must not.
func (w *world) remake(path string) {
	for _, d := range w.blocks.Devices() {
		if "/dev/"+d.Disk == path && d.FS == "ext4" {
			d.FSUUID += "x"
			w.blocks.Change(d)
		}
	}
}
