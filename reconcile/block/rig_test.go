package block

import (
	"strconv"
	"testing"
	"time"

	"machined/hal"
	"machined/hal/fake"
	"machined/reconcile"
	"machined/reconcile/resource"
)

const stateTarget, ephemeralTarget = "/system/state", "/var"

// rig is a node's disks in simulated time.
type rig struct {
	t           *testing.T
	clock       *fake.Clock
	mounts      *fake.Mounts
	blocks      *fake.BlockDevices
	provisioner *fake.Provisioner
	disks       *fake.Disks
	jobs        *fake.Jobs
	settings    *Settings
	bootDisk    string
	why         string // that volumes cannot be made
	later       bool
	inRAM       bool // booted from no disk

	store *reconcile.Store
	loop  *reconcile.Loop
	by    reconcile.Owner
	round int
}

// newRig returns a node with an SD card as an image leaves it: a boot partition
// and free space. It has not run yet.
func newRig(t *testing.T) *rig {
	r := &rig{t: t, clock: fake.NewClock(1767225600e9), mounts: &fake.Mounts{}, settings: &Settings{StateSize: 16 * mib}, bootDisk: "mmcblk0"}
	r.clock.Advance(1e9)
	r.blocks = &fake.BlockDevices{Mounts: r.mounts}
	r.provisioner = &fake.Provisioner{Blocks: r.blocks}
	r.disks = &fake.Disks{Blocks: r.blocks}
	r.jobs = fake.NewJobs(r.clock)
	r.jobs.Delay = 2e9
	r.plug("mmcblk0", mbr(), mbrBoot())
	r.start()
	return r
}

// plug plugs a disk in, by another name than it was made with.
func (r *rig) plug(name string, d hal.BlockDevice, parts ...hal.BlockDevice) {
	d.Name, d.Path, d.Serial = name, "", "S-"+name
	r.blocks.AddDisk(d)
	for _, p := range parts {
		p.Disk, p.Path = name, ""
		if p.FS != "" {
			p.FSUUID = name + "-" + strconv.Itoa(p.Number)
		}
		r.blocks.AddPartition(p)
	}
}

// unplug pulls a disk out and returns what puts it back, by the same name or
// another one.
func (r *rig) unplug(name string) (back func(name string)) {
	var d hal.BlockDevice
	var parts []hal.BlockDevice
	for _, other := range r.blocks.Devices() {
		switch {
		case other.Disk != name:
		case other.Number == 0:
			d = other
		default:
			parts = append(parts, other)
		}
	}
	r.blocks.Remove(name)
	return func(name string) {
		d.Name, d.Path = name, ""
		r.blocks.AddDisk(d)
		for _, p := range parts {
			p.Disk, p.Path = name, ""
			r.blocks.AddPartition(p)
		}
	}
}

// start starts the program: anew, when one has run before.
func (r *rig) start() {
	r.t.Helper()
	r.store = reconcile.NewStore(nil)
	var err error
	if r.loop, err = reconcile.NewLoop(r.store, 1); err != nil {
		r.t.Fatal(err)
	}
	r.loop.Panicked = func(name string, value any) { r.t.Fatalf("%s panics: %v", name, value) }
	boot := ""
	if r.bootDisk != "" {
		boot = "/dev/" + r.bootDisk + "p1"
	}
	for _, c := range []reconcile.Controller{
		&Discover{Blocks: r.blocks},
		&Volumes{
			Settings: func() *Settings { return r.settings }, Blocks: r.blocks, Provisioner: r.provisioner, Disks: r.disks, Mounts: r.mounts,
			Jobs: r.jobs, BootDisk: r.bootDisk, Boot: boot, InRAM: r.inRAM, Targets: [2]string{stateTarget, ephemeralTarget},
			MayProvision: func() (string, bool) { return r.why, r.later },
		},
		&Mounts{Mounts: r.mounts, Places: []Place{{State, stateTarget}, {Ephemeral, ephemeralTarget}}, Skip: "/newroot"},
	} {
		if err := r.loop.Add(c); err != nil {
			r.t.Fatal(err)
		}
	}
	if r.by, err = r.store.Register("test", reconcile.Output{Kind: resource.MachineConfigKind}); err != nil {
		r.t.Fatal(err)
	}
}

// reboot starts the machine anew: mounts and jobs are gone.
func (r *rig) reboot() {
	r.unmountAll()
	r.jobs = fake.NewJobs(r.clock)
	r.jobs.Delay = 2e9
	r.start()
}

func (r *rig) unmountAll() {
	r.t.Helper()
	all, err := r.mounts.List()
	if err != nil {
		r.t.Fatal(err)
	}
	for i := len(all) - 1; i >= 0; i-- {
		if err := r.mounts.Unmount(all[i].Target, true); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) configure(s Settings) {
	r.t.Helper()
	if s.StateSize == 0 {
		s.StateSize = 16 * mib
	}
	r.settings = &s
	r.round++
	if err := r.store.MachineConfigs.Put(r.by, resource.MachineConfig{Source: "test", Bytes: strconv.Itoa(r.round)}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) now() time.Duration { return time.Duration(r.clock.SinceBoot()) }

// run lets time pass. What is due now is done even with 0.
func (r *rig) run(d time.Duration) {
	r.t.Helper()
	end := r.now() + d
	for passes := 0; passes < 100000; passes++ {
		r.jobs.Step()
		next := min(r.loop.Pass(r.now()), end)
		if at, ok := r.jobs.Due(); ok {
			next = min(next, time.Duration(at))
		}
		if next > r.now() {
			r.clock.Advance(int64(next - r.now()))
		} else if r.now() >= end {
			return
		}
	}
	r.t.Fatalf("the loop never rests at %v", r.now())
}

func (r *rig) volume(name string) resource.VolumeStatus {
	r.t.Helper()
	v, _, ok := r.store.Volumes.Get(resource.Named(name))
	if !ok {
		r.t.Fatalf("at %v there is no status of %s", r.now(), name)
	}
	return v
}

// expect checks a volume's status as "phase device: message", of which the
// message may be a part.
func (r *rig) expect(name, phase, device, message string) {
	r.t.Helper()
	v := r.volume(name)
	if v.Phase != phase || v.Device != device || !has(v.Message, message) {
		r.t.Errorf("at %v %s is %s on %q (%s); want %s on %q (%s)", r.now(), name, v.Phase, v.Device, v.Message, phase, device, message)
	}
}

// has reports whether text has the part; "" is no text at all.
func has(text, part string) bool {
	if part == "" {
		return text == ""
	}
	for i := 0; i+len(part) <= len(text); i++ {
		if text[i:i+len(part)] == part {
			return true
		}
	}
	return false
}

// expectReady checks that both volumes are in use.
func (r *rig) expectReady(state, ephemeral string) {
	r.t.Helper()
	r.expect(State, Ready, state, "")
	r.expect(Ephemeral, Ready, ephemeral, "")
	r.expectMount(stateTarget, state)
	r.expectMount(ephemeralTarget, ephemeral)
}

// expectMount checks what is mounted at a target, "" for nothing.
func (r *rig) expectMount(target, source string) {
	r.t.Helper()
	all, err := r.mounts.List()
	if err != nil {
		r.t.Fatal(err)
	}
	if got, _ := mountedAt(all, target); got != source {
		r.t.Errorf("at %v %q is mounted at %s; want %q", r.now(), got, target, source)
	}
}

func (r *rig) expectCalls(want int) {
	r.t.Helper()
	if got := r.provisioner.Calls; got != want {
		r.t.Errorf("until %v volumes were provisioned %d times; want %d", r.now(), got, want)
	}
}

// lastError returns what the last run of a controller ended with.
func (r *rig) lastError(controller string) string {
	c, _, _ := r.store.Controllers.Get(resource.Named(controller))
	return c.LastError
}

// moves counts changes of all kinds but the loop's own.
func (r *rig) moves() uint64 {
	return r.store.Moves() - r.store.Seq(resource.ControllerStatusKind)
}

// uuid returns the UUID of what is on a device.
func (r *rig) uuid(device string) string {
	d, _ := r.blocks.Find(device)
	return d.FSUUID
}
