package block

import (
	"errors"
	"time"

	"machined/hal"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// Settings say which disk carries STATE and EPHEMERAL.
type Settings struct {
	// Disk is the path of the disk, Selector describes it; without either it
	// is the disk that the node was booted from.
	Disk     string
	Selector *Selector
	// Wipe permits that what is on the disk is destroyed.
	Wipe bool
	// Sizes in bytes of volumes that are made; 0 for EPHEMERAL is the rest.
	StateSize, EphemeralSize int64
}

// Phases of VolumeStatus.
const (
	Waiting      = "Waiting"
	Provisioning = "Provisioning"
	Mounting     = "Mounting"
	Ready        = "Ready"
	Failed       = "Failed"
	Refused      = "Refused"
)

// Volumes makes STATE and EPHEMERAL where they are missing and may be made, and
// mounts them.
type Volumes struct {
	Settings    func() *Settings
	Blocks      hal.BlockDevices
	Provisioner hal.Provisioner
	Disks       hal.Disks
	Mounts      hal.Mounts
	Jobs        hal.Jobs
	// BootDisk is the name of the disk that the node was booted from, Boot the
	// path of the boot partition; "" when there is none.
	BootDisk, Boot string
	// InRAM has the volumes in RAM where no disk has a STATE: the node was booted
	// from no disk.
	InRAM bool
	// Targets are where STATE and EPHEMERAL belong.
	Targets [2]string
	// MayProvision says why volumes cannot be made, "" when they can, and
	// whether they can later.
	MayProvision func() (why string, later bool)

	boot     bootDisk
	ram      bool          // the volumes are in RAM
	adopted  bool          // a disk with a STATE was there
	making   hal.Job       // provisioning, nil when none is under way
	on       string        // path of the disk that it is for
	madeAt   time.Duration // when that ended, 0 before
	scans    uint64        // at that time
	again    retry         // of provisioning
	mounting [2]mounting
	seen     [2]uint64 // scans, and changes of the config, of the last run
}

type mounting struct {
	job    hal.Job
	device string
	again  retry
}

// lookEvery bounds what a change costs that nobody told of: a mount that
// somebody made or took away.
const lookEvery = time.Minute

func (c *Volumes) Spec() reconcile.Spec {
	return reconcile.Spec{
		Name:     "volumes",
		Inputs:   []resource.Kind{resource.MachineConfigKind, resource.DiskStatusKind, resource.DiscoveredVolumeKind},
		External: []func() uint64{c.Blocks.Scans, c.Jobs.Ended},
		Outputs:  []reconcile.Output{{Kind: resource.VolumeStatusKind}},
		Interval: lookEvery,
	}
}

func (c *Volumes) Reconcile(r *reconcile.Run) error {
	c.boot.find(c, c.Blocks.Devices()) // as early as can be
	mounted, err := c.Mounts.List()
	if err != nil {
		return err // what was published stands
	}
	status := [2]resource.VolumeStatus{}
	for i := range status {
		status[i] = resource.VolumeStatus{Name: name(i), Label: name(i), FS: "ext4", Phase: Waiting}
	}
	c.hasten(r)
	failed := c.work(r, mounted, &status)
	for _, s := range status {
		failed = reconcile.First(failed, r.Store.Volumes.Put(r.By, s))
	}
	return failed
}

// hasten has what failed tried again at once when there are other disks, or
// another config.
func (c *Volumes) hasten(r *reconcile.Run) {
	now := [2]uint64{c.Blocks.Scans(), r.Store.Seq(resource.MachineConfigKind)}
	if now == c.seen {
		return
	}
	c.seen = now
	c.again.hasten()
	for i := range c.mounting {
		c.mounting[i].again.hasten()
	}
}

func (c *Volumes) work(r *reconcile.Run, mounted []hal.MountInfo, status *[2]resource.VolumeStatus) error {
	all := func(phase, why string) {
		for i := range status {
			if status[i].Phase == Waiting {
				status[i].Phase, status[i].Message = phase, why
			}
		}
	}
	if c.Blocks.Scans() == 0 {
		all(Waiting, "looking for disks")
		return nil
	}
	devices := c.Blocks.Devices()
	if ram, wait := c.goesToRAM(r, devices); wait {
		all(Waiting, "looking for a disk with a STATE")
		return nil
	} else if ram {
		return reconcile.First(c.mountRAM(r, 0, mounted, &status[0]), c.mountRAM(r, 1, mounted, &status[1]))
	}
	failed := c.dropGone(devices, mounted)
	bootDisk, boot := c.boot.find(c, devices)
	disk, why, forGood := c.target(devices, bootDisk)
	switch {
	case forGood:
		all(Refused, why)
		return failed
	case why != "":
		all(Waiting, why)
		return failed
	}
	if boot == "" && c.InRAM {
		boot = bootOn(disk, devices)
	}
	d := Decide(disk, partitionsOf(disk, devices), boot, c.Settings().Wipe)
	if d.Action == Wipe && (c.isMounting() || c.inUse(disk, devices, mounted)) {
		d = d.refuse("something on it is mounted, so it cannot be wiped")
	}
	for i, found := range d.Found {
		if found.Name != "" && d.Action != Wipe {
			failed = reconcile.First(failed, c.mount(r, i, found, mounted, &status[i]))
		}
	}
	switch d.Action {
	case Skip:
		if c.making != nil && c.making.Done() {
			c.making, c.madeAt = nil, 0
		}
	case Refuse:
		all(Refused, disk.Path+" is left alone: "+d.Why)
	default:
		failed = reconcile.First(failed, c.provision(r, disk, d, all))
	}
	return failed
}

func partitionsOf(disk hal.BlockDevice, devices []hal.BlockDevice) []hal.BlockDevice {
	var out []hal.BlockDevice
	for _, d := range devices {
		if d.Disk == disk.Name && d.Number != 0 {
			out = append(out, d)
		}
	}
	return out
}

// provision starts to make what is missing, or says how that stands.
func (c *Volumes) provision(r *reconcile.Run, disk hal.BlockDevice, d Decision, all func(phase, why string)) error {
	if why, later := c.MayProvision(); later {
		all(Waiting, why)
		return nil
	} else if why != "" {
		all(Failed, why)
		return nil
	}
	if c.making != nil && c.making.Done() && c.on != disk.Path {
		c.making, c.madeAt = nil, 0 // it says nothing of this disk
	}
	if c.making == nil && c.again.waits(r.Now) {
		r.WakeAt(c.again.at)
		all(Failed, c.again.err.Error())
		return c.again.err
	}
	if c.making == nil {
		settings, provisioner := c.Settings(), c.Provisioner
		p := hal.Provision{
			Disk: disk.Path, Wipe: d.Action == Wipe,
			Volumes: []hal.NewVolume{{Label: State, Size: settings.StateSize}, {Label: Ephemeral, Size: settings.EphemeralSize}},
		}
		c.on = disk.Path
		c.making = c.Jobs.Start(func() error { return provisioner.Provision(p) })
	}
	if !c.making.Done() {
		all(Provisioning, "on "+c.on)
		return c.again.err
	}
	if err := c.making.Err(); err != nil {
		c.making = nil
		c.again.failed(r.Now, err)
		r.WakeAt(c.again.at)
		all(Failed, err.Error())
		return err
	}
	c.again = retry{}
	if c.madeAt == 0 {
		c.madeAt, c.scans = r.Now, c.Blocks.Scans()
		c.Blocks.Rescan()
	}
	// What was made shows in the next scan; until then it must not be made again.
	all(Provisioning, "waiting for the kernel to show the partitions of "+disk.Path)
	if c.scans != c.Blocks.Scans() || r.Now >= c.madeAt+lookEvery {
		c.making, c.madeAt = nil, 0
	}
	return nil
}

// mount mounts a volume, or says how that stands.
func (c *Volumes) mount(r *reconcile.Run, i int, found hal.BlockDevice, mounted []hal.MountInfo, status *resource.VolumeStatus) error {
	status.Device = found.Path
	m := &c.mounting[i]
	if source, ok := mountedAt(mounted, c.Targets[i]); ok && (m.job == nil || m.job.Done()) {
		if source != found.Path {
			status.Phase, status.Message = Failed, source+" is mounted in its place"
			return nil
		}
		status.Phase, m.again = Ready, retry{}
		if m.job != nil && m.job.Err() != nil {
			status.Message = m.job.Err().Error() // it is of use at its old size
		}
		return nil
	}
	if m.job != nil && m.job.Done() {
		err := m.job.Err()
		m.job = nil
		if err != nil && m.device == found.Path { // and not that of a disk which is gone
			m.again.failed(r.Now, err)
		}
	}
	if m.job == nil && m.again.waits(r.Now) {
		r.WakeAt(m.again.at)
		status.Phase, status.Message = Failed, m.again.err.Error()
		return m.again.err
	}
	if m.job == nil {
		m.device = found.Path
		m.job = c.Jobs.Start(c.mountJob(i, found))
	}
	status.Phase = Mounting
	return m.again.err
}

// mountJob mounts the volume and lets its file system fill the partition.
func (c *Volumes) mountJob(i int, found hal.BlockDevice) func() error {
	mounts, disks, target := c.Mounts, c.Disks, c.Targets[i]
	flags := volumeFlags(i)
	return func() error {
		if err := mounts.Mount(hal.Mount{Source: found.Path, Target: target, FSType: "ext4", Flags: flags}); err != nil {
			return err
		}
		return disks.GrowExt4(target, found.Size)
	}
}

// dropGone detaches volumes whose disk was pulled out: their file system is of
// no use any more, and its place is needed when it comes back.
func (c *Volumes) dropGone(devices []hal.BlockDevice, mounted []hal.MountInfo) error {
	var failed error
	for i, target := range c.Targets {
		source, ok := mountedAt(mounted, target)
		if !ok || isThere(devices, source) {
			continue
		}
		if err := c.Mounts.Unmount(target, true); err != nil && !errors.Is(err, hal.ErrNotMounted) {
			failed = reconcile.First(failed, err)
		}
		c.mounting[i] = mounting{}
	}
	return failed
}

func isThere(devices []hal.BlockDevice, path string) bool {
	for _, d := range devices {
		if d.Path == path {
			return true
		}
	}
	return false
}

// inUse reports whether the disk or a partition of it is mounted.
func (c *Volumes) inUse(disk hal.BlockDevice, devices []hal.BlockDevice, mounted []hal.MountInfo) bool {
	for _, d := range devices {
		for _, m := range mounted {
			if d.Disk == disk.Name && m.Source == d.Path {
				return true
			}
		}
	}
	return false
}

// isMounting reports whether a mount is under way: of what, is known when it ends.
func (c *Volumes) isMounting() bool {
	for _, m := range c.mounting {
		if m.job != nil && !m.job.Done() {
			return true
		}
	}
	return false
}

// mountedAt returns the device that is mounted at target, the topmost one.
func mountedAt(mounted []hal.MountInfo, target string) (string, bool) {
	for i := len(mounted) - 1; i >= 0; i-- {
		if mounted[i].Target == target {
			return mounted[i].Source, true
		}
	}
	return "", false
}
