package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"machined/hal"
	"machined/hal/fake"
	"machined/reconcile"
	"machined/reconcile/assembly"
	"machined/reconcile/resource"
	"machined/reconcile/runtime"
	"machined/reconcile/timesync"
)

// Places of the node.
const (
	statePath, varPath = "/system/state", "/var"
	resolverPath       = "/run/resolv.conf"
	leasesPath         = "/run/dhcp"
	bootPath           = "/boot"
)

// node is the program under test, as one start of it.
type node struct {
	w        *world
	settings *assembly.Settings
	config   int  // number of the settings
	resident bool // volumes can be made after the next start of the program
	unable   bool // and never on this node

	bootDisk string
	store    *reconcile.Store
	loop     *reconcile.Loop
	by       reconcile.Owner
	state    string // UUID of STATE since it was ready, "" before
	next     time.Duration
	told     map[string]string
}

func (n *node) targets() [2]string { return [2]string{statePath, varPath} }

// start starts the program: the store and the controllers are new.
func (n *node) start() {
	w := n.w
	w.dead, w.cutAfter = false, 0
	w.jobs = fake.NewJobs(w.clock)
	w.podJobs = fake.NewJobs(w.clock)
	w.jobs.Delays = func(int) int64 { return w.between(1_000_000, w.slow) }
	w.podJobs.Delays = w.jobs.Delays
	w.containers.volumes, w.containers.volume, w.containers.answered = 0, w.containers.place, w.now()
	all, _ := w.links.List()
	for _, l := range all {
		w.dhcp.Close(l.Index)
	}
	for _, other := range w.nics {
		if l := w.link(other); l.Index != 0 {
			other.mtus = append(other.mtus, l.MTU)
		}
	}
	n.state, n.told = "", map[string]string{}
	if w.clock.Now() < built {
		_ = w.clock.Set(built)
	}
	w.ledger.lowered = false
	n.assemble()
	n.publish()
	w.newWatchers()
}

func (n *node) assemble() {
	w := n.w
	n.store = reconcile.NewStore(nil)
	seed := w.rng.Uint64()
	var err error
	if n.loop, err = reconcile.NewLoop(n.store, seed); err != nil {
		w.fail("simulation", "%v", err)
		return
	}
	n.loop.Panicked = func(name string, value any) { w.fail("panic", "%s: %v", name, value) }
	boot := ""
	if n.bootDisk != "" {
		boot = partitionPath(n.bootDisk, 1)
	}
	parts := assembly.Node{
		Drivers: assembly.Drivers{
			Clock: clock{w.clock, w}, Host: host{w.host, w}, Links: links{w.links, w}, DHCP: dhcp{w.dhcp, w}, NTP: ntp{w.ntp, w},
			Blocks: w.blocks, Provisioner: provisioner{w}, Disks: disks{w.disks, w}, Mounts: mounts{w.mounts, w}, Files: files{w.files, w},
			Jobs: jobs{w: w, inner: w.jobs}, CRI: cri{w},
		},
		Pods: assembly.Pods{
			LogDir: "/run/logs", Prepare: func(*runtime.Pod) error { return w.enter("prepare") },
			Check: func(runtime.Probe, string) error { return w.checkProbe() }, Bundles: bundles, Marker: markerPath,
		},
		Places: assembly.Places{
			BootDisk: n.bootDisk, Boot: boot, State: statePath, Ephemeral: varPath, NewRoot: "/newroot", Resolver: resolverPath, Leases: leasesPath,
		},
		Settings: func() *assembly.Settings { return n.settings },
		Hostname: func() string { name, _ := w.host.Hostname(); return name },
		OnState:  n.onState, MayProvision: n.mayProvision, Floor: built, Seed: seed,
	}
	for _, c := range parts.Controllers() {
		switch c := c.(type) {
		case *timesync.Sync:
			c.Jobs = jobs{w, w.jobs, true}
		case *runtime.Status:
			c.Jobs = criJobs{w, w.podJobs}
		case *runtime.Pods:
			c.Jobs = criJobs{w, w.podJobs}
		case *runtime.Collect:
			c.Jobs = criJobs{w, w.podJobs}
		}
		if err := n.loop.Add(c); err != nil {
			w.fail("simulation", "%v", err)
		}
	}
	if w.containers.by, err = n.store.Register("services", reconcile.Output{Kind: resource.ServiceStatusKind}); err != nil {
		w.fail("simulation", "%v", err)
	}
	if n.by, err = n.store.Register("machined", reconcile.Output{Kind: resource.MachineConfigKind}); err != nil {
		w.fail("simulation", "%v", err)
	}
}

func partitionPath(disk string, number int) string {
	if last := disk[len(disk)-1]; last >= '0' && last <= '9' {
		disk += "p"
	}
	return "/dev/" + disk + strconv.Itoa(number)
}

// onState names files of STATE by the volume that they are on.
func (n *node) onState(name string) string {
	if n.state == "" {
		return ""
	}
	return "/disk/" + n.state + "/" + name
}

func (n *node) mayProvision() (why string, later bool) {
	switch {
	case n.resident:
		return "the slot's system is not in use yet", true
	case n.unable:
		return "there is nothing to make volumes of", false
	}
	return "", false
}

// configure gives the node another config.
func (n *node) configure(s *assembly.Settings) {
	n.settings = s
	n.config++
	n.publish()
}

func (n *node) publish() {
	c := resource.MachineConfig{Source: "simulation", Bytes: strconv.Itoa(n.config)}
	if err := n.store.MachineConfigs.Put(n.by, c); err != nil {
		n.w.fail("simulation", "%v", err)
	}
}

// pass runs what is due, as the real node does whenever something happens.
func (n *node) pass() time.Duration {
	w := n.w
	w.counts.passes++
	w.supervise()
	n.next = n.loop.Pass(w.now())
	if n.state == "" {
		if v, _, _ := n.store.Volumes.Get(resource.Named("STATE")); v.Phase == "Ready" {
			_, p := w.partitionAt(v.Device)
			n.state = p.FSUUID
			w.ledger.uuids[n.state] = true
		}
	}
	if w.trace.verbose != nil {
		n.tell()
	}
	return n.next
}

// tell follows what a person wants to see of the store.
func (n *node) tell() {
	for _, k := range []resource.Kind{resource.LeaseStatusKind, resource.VolumeStatusKind, resource.TimeStatusKind, resource.PodStatusKind, resource.RuntimeStatusKind, resource.ControllerStatusKind} {
		for _, c := range n.store.Snapshot(k) {
			text := ""
			switch r := c.Resource.(type) {
			case resource.ControllerStatus:
				text = r.LastError
			case resource.LeaseStatus:
				text = r.State + " " + r.Address.String() + " " + r.Trouble
			case resource.VolumeStatus:
				text = r.Phase + " " + r.Device + " " + r.Message
			case resource.TimeStatus:
				text = r.Server + " " + r.Message
			case resource.PodStatus:
				text = r.Phase + " " + r.Message
			case resource.RuntimeStatus:
				text = strconv.FormatBool(r.Ready) + " " + r.Message
			}
			if id := k.String() + " " + c.Key.String(); n.told[id] != text {
				n.told[id] = text
				n.w.trace.detail(n.w.now(), "%s: %s", id, text)
			}
		}
	}
}

// lastError returns what a controller's last run ended with.
func (n *node) lastError(controller string) string {
	c, _, _ := n.store.Controllers.Get(resource.Named(controller))
	return c.LastError
}

// busiest names the controller that ran most.
func (n *node) busiest() string {
	var most resource.ControllerStatus
	for i := range n.store.Controllers.Len() {
		if c, _ := n.store.Controllers.At(i); c.Runs > most.Runs {
			most = c
		}
	}
	return fmt.Sprintf("%s has run %d times, its last error is %q", most.Name, most.Runs, most.LastError)
}

// restart executes the program anew, as after an update of it.
func (w *world) restart() {
	if w.boot != nil && !(w.boot.plugged && w.boot.name == w.node.bootDisk) {
		return // the program is on it
	}
	w.counts.restarts++
	w.rememberOrphans()
	w.note("the program starts anew")
	w.node.resident = false
	w.node.start()
}

// rememberOrphans notes what the next start cannot know to be the node's own: what
// was being taken away, and a lease that could not be written down.
func (w *world) rememberOrphans() {
	s := w.node.store
	lost := func(link string, p reconcile.Phase, by reconcile.Owner) bool {
		if p == reconcile.TearingDown {
			return true
		}
		lease, _, _ := s.Leases.Get(resource.Named(link))
		file, _ := w.files.Read(leasesPath + "/" + link)
		l, _, _ := s.Links.Get(resource.Named(link))
		recorded := strings.Contains(string(file), fmt.Sprintf("index %d\naddress %v\n", l.Index, lease.Address)) && !w.breaking("files") && !w.breaking("links")
		return s.OwnerName(by) == "dhcp4" && !recorded
	}
	for i := range s.AddressSpecs.Len() {
		if spec, meta := s.AddressSpecs.At(i); lost(spec.Link, meta.Phase, meta.Owner) {
			w.ledger.orphans[spec.Address] = true
		}
	}
	for i := range s.RouteSpecs.Len() {
		if spec, meta := s.RouteSpecs.At(i); lost(spec.Link, meta.Phase, meta.Owner) {
			w.ledger.strays[spec] = true
		}
	}
}

// reboot starts the machine anew: what is in memory goes, what is on disks stays.
func (w *world) reboot(why string) {
	w.counts.reboots++
	w.note("reboot: %s", why)
	all, _ := w.mounts.List()
	for i := len(all) - 1; i >= 0; i-- {
		_ = w.mounts.Unmount(all[i].Target, true)
	}
	for _, path := range w.files.Paths() {
		if strings.HasPrefix(path, "/run/") {
			_ = w.files.Remove(path)
		}
	}
	clear(w.ledger.orphans)
	clear(w.ledger.strays)
	_ = w.host.SetHostname("(none)")
	if w.chance(50) {
		_ = w.clock.Set(w.between(0, 100) * second) // it has no clock that runs on
	}
	var back []*nic
	for _, n := range w.nics {
		if n.index != 0 {
			w.unplugNIC(n)
			back = append(back, n)
		}
	}
	w.rng.Shuffle(len(back), func(i, j int) { back[i], back[j] = back[j], back[i] })
	for _, n := range back {
		w.plugNIC(n)
	}
	w.rebootContainers()
	w.powerOn()
}

// powerOn finds the boot disk, and the others somewhat later.
func (w *world) powerOn() {
	var rest []*storage
	for _, s := range w.stores {
		if s.plugged {
			w.unplug(s)
			rest = append(rest, s)
		}
	}
	w.blocks = &fake.BlockDevices{Mounts: w.mounts}
	w.disks = &fake.Disks{Blocks: w.blocks}
	w.provisioner.Blocks = w.blocks
	if w.chance(20) {
		w.rng.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	}
	w.node.bootDisk, w.node.resident = "", w.boot != nil && w.chance(40)
	if w.boot != nil {
		w.plug(w.boot)
		w.node.bootDisk = w.boot.name
		w.mountBoot()
	}
	if w.node.resident {
		w.later(w.seconds(3, 30), func() { // the slot's program takes over
			if w.node.resident {
				w.restart()
			}
		})
	}
	w.later(w.between(0, 3*second), func() {
		for _, s := range rest {
			w.plug(s)
		}
		w.blocks.Scan()
	})
	w.node.start()
}

// mountBoot mounts what stage 1 and stage 2 mount before the controllers run.
func (w *world) mountBoot() {
	disk, parts := w.contents(w.boot)
	if w.chance(70) {
		m := hal.Mount{Source: partitionPath(w.boot.name, 1), Target: bootPath, FSType: "vfat", Flags: hal.ReadOnly | hal.NoSuid | hal.NoDev}
		_ = w.mounts.Mount(m)
	}
	for _, p := range parts {
		if w.boot.tags[p.Number] == stateTag && p.FS == "ext4" && !disk.ReadOnly {
			m := hal.Mount{Source: p.Path, Target: statePath, FSType: "ext4", Flags: hal.NoSuid | hal.NoDev | hal.NoExec}
			_ = w.mounts.Mount(m)
		}
	}
}
