// Package block holds the controllers of disks and volumes: what is there, what
// may be made of it, and what is mounted.
package block

import (
	"time"

	"machined/hal"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// Discover publishes the disks, and the partitions and file systems on them.
type Discover struct{ Blocks hal.BlockDevices }

func (d *Discover) Spec() reconcile.Spec {
	return reconcile.Spec{
		Name:     "disks",
		External: []func() uint64{d.Blocks.Scans},
		Outputs:  []reconcile.Output{{Kind: resource.DiskStatusKind}, {Kind: resource.DiscoveredVolumeKind}},
	}
}

func (d *Discover) Reconcile(r *reconcile.Run) error {
	s := r.Store
	s.Disks.Begin()
	s.Discovered.Begin()
	var failed error
	for _, dev := range d.Blocks.Devices() {
		if dev.Number == 0 {
			failed = reconcile.First(failed, s.Disks.Put(r.By, resource.DiskStatus{
				Name: dev.Name, Path: dev.Path, SizeBytes: dev.Size, Model: dev.Model, Serial: dev.Serial, Bus: dev.Bus,
				Rotational: dev.Rotational, ReadOnly: dev.ReadOnly, Table: tableName(dev.Table), Trouble: dev.Trouble,
			}))
		}
		if dev.Number != 0 || dev.FS != "" {
			failed = reconcile.First(failed, s.Discovered.Put(r.By, resource.DiscoveredVolume{
				Device: dev.Path, Disk: dev.Disk, PartitionLabel: dev.Label, FSType: dev.FS, FSLabel: dev.FSLabel, UUID: dev.FSUUID,
				SizeBytes: dev.Size, Trouble: dev.Trouble,
			}))
		}
	}
	s.Disks.Sweep(r.By)
	s.Discovered.Sweep(r.By)
	return failed
}

func tableName(t hal.Table) string {
	switch t {
	case hal.GPT:
		return "gpt"
	case hal.MBR:
		return "mbr"
	}
	return ""
}

// Place is where a mount belongs.
type Place struct{ Volume, Target string }

// Mounts publishes what is mounted from block devices.
type Mounts struct {
	Mounts hal.Mounts
	// Places name the volumes of mount points; others go by their target.
	Places []Place
	// Skip is a target that is left out: that of a root that is not in use yet.
	Skip string
}

// mountsEvery bounds what a change costs that nobody told of.
const mountsEvery = time.Minute

func (*Mounts) Spec() reconcile.Spec {
	return reconcile.Spec{
		Name: "mounts", Inputs: []resource.Kind{resource.VolumeStatusKind},
		Outputs: []reconcile.Output{{Kind: resource.MountStatusKind}}, Interval: mountsEvery,
	}
}

func (m *Mounts) Reconcile(r *reconcile.Run) error {
	all, err := m.Mounts.List()
	if err != nil {
		return err
	}
	t := &r.Store.Mounts
	t.Begin()
	var failed error
	for i, info := range all {
		if len(info.Source) < 5 || info.Source[:5] != "/dev/" || info.Target == m.Skip || covered(all[i+1:], info.Target) {
			continue
		}
		failed = reconcile.First(failed, t.Put(r.By, resource.MountStatus{
			Volume: m.volume(info.Target), Source: info.Source, Target: info.Target, FSType: info.FSType, Mounted: true,
		}))
	}
	// A volume that is not mounted is worth a line, too.
	for i := 0; i < r.Store.Volumes.Len(); i++ {
		v, _ := r.Store.Volumes.At(i)
		for _, p := range m.Places {
			if key := resource.Named(p.Target); p.Volume == v.Name && !t.Marked(key) {
				failed = reconcile.First(failed, t.Put(r.By, resource.MountStatus{Volume: v.Name, Source: v.Device, Target: p.Target, FSType: v.FS}))
			}
		}
	}
	t.Sweep(r.By)
	return failed
}

// covered reports whether something is mounted over a target later: it alone is
// seen there.
func covered(later []hal.MountInfo, target string) bool {
	_, ok := mountedAt(later, target)
	return ok
}

func (m *Mounts) volume(target string) string {
	for _, p := range m.Places {
		if p.Target == target {
			return p.Volume
		}
	}
	return target
}
