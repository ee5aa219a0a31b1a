package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"machined/hal"
	"machined/hal/fake"
	"machined/hal/linux"
	"machined/init/config"
	"machined/init/console"
	"machined/init/supervise/logring"
	"machined/reconcile/network"
	"machined/reconcile/resource"
)

// screen is a console that keeps what it shows.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// shows reports whether text is on the screen, once it shows what was printed.
func (s *screen) shows(log *console.Log, text string) bool { return s.count(log, text) > 0 }

func (s *screen) count(log *console.Log, text string) int {
	log.Flush(10 * time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.text.String(), text)
}

// rig is a node on simulated drivers and a directory of its own.
type rig struct {
	*node
	clock     *fake.Clock
	host      *fake.Host
	mounts    *fake.Mounts
	power     *fake.Power
	processes *fake.Processes
	disks     *fake.Disks
	links     *fake.Links
	blocks    *fake.BlockDevices
	watchdog  *fake.Watchdog
	screen    *screen
}

// promptJobs run at once: the simulated drivers are for one goroutine.
type promptJobs struct{ *fake.Jobs }

func (j promptJobs) Start(run func() error) hal.Job {
	defer j.Step()
	return j.Jobs.Start(run)
}

const y2026 = 1767225600 // Unix time of 2026-01-01, in seconds

// newRig returns a node with STATE and the boot partition mounted, that a
// resident start has prepared.
func newRig(t *testing.T) *rig {
	t.Helper()
	clock := fake.NewClock(y2026 * 1e9)
	r := &rig{
		clock: clock, host: fake.NewHost("(none)"), mounts: &fake.Mounts{}, power: &fake.Power{}, processes: fake.NewProcesses(clock),
		disks: &fake.Disks{}, links: &fake.Links{}, blocks: &fake.BlockDevices{}, watchdog: fake.NewWatchdog(clock), screen: &screen{},
	}
	r.node = &node{
		log: console.New(func() int64 { return 0 }, r.screen), rings: logring.NewSet(logring.DefaultTotal), root: t.TempDir(), kicks: make(chan struct{}, 1),
		boot: handover{Slot: "A", Board: "test", BootPartition: "/dev/mmcblk0p1", BootDisk: "mmcblk0", WatchdogFD: -1, ListenerFD: -1},
		drivers: drivers{
			clock: r.clock, host: r.host, mounts: r.mounts, power: r.power, processes: r.processes,
			disks: r.disks, links: r.links, dhcp: fake.NewDHCP(clock), ntp: fake.NewNTP(clock, y2026*1e9), files: &linux.Files{},
			listenAPI: func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") },
			blocks:    r.blocks, provisioner: &fake.Provisioner{Blocks: r.blocks},
		},
	}
	r.jobs = promptJobs{fake.NewJobs(clock)}
	r.node.cgroups = fake.NewCgroups(r.processes)
	var err error
	r.reconciler, err = newReconciler(r.panicked)
	mustDo(t, err)
	r.reporter = newReporter(r.store, r.log.Printf, func() bool { return r.boot.Resident })
	r.state.settled = true // as after the first pass
	r.loaded.Config = config.Default()
	r.settings = newSettings(r.loaded.Config.Machine)
	for _, dir := range []string{stateDir, cardDir} {
		mustDo(t, os.MkdirAll(r.at(dir), 0o755))
	}
	mustDo(t, os.WriteFile(r.at(stateMarker), nil, 0o600))
	r.mounts.AddDevice("/dev/mmcblk0p1", "vfat")
	r.mounts.AddDevice("/dev/mmcblk0p2", "ext4")
	r.mounts.AddDevice("/dev/mmcblk0p3", "ext4")
	mustDo(t, r.mounts.Mount(hal.Mount{Source: "/dev/mmcblk0p1", Target: bootDir, FSType: "vfat", Flags: hal.ReadOnly}))
	mustDo(t, r.mounts.Mount(hal.Mount{Source: "/dev/mmcblk0p2", Target: stateDir, FSType: "ext4"}))
	r.blocks.AddDisk(hal.BlockDevice{Name: "mmcblk0", Path: "/dev/mmcblk0", Size: 4 << 30, Bus: "mmc", Table: hal.MBR})
	r.blocks.AddPartition(hal.BlockDevice{Disk: "mmcblk0", Number: 1, Start: 1 << 20, Size: 256 << 20, Type: "0c", FS: "vfat", FSLabel: "BOOT"})
	r.blocks.AddPartition(hal.BlockDevice{Disk: "mmcblk0", Number: 2, Start: 257 << 20, Size: 128 << 20, Type: "83", FS: "ext4", FSLabel: "STATE"})
	r.blocks.AddPartition(hal.BlockDevice{Disk: "mmcblk0", Number: 3, Start: 385 << 20, Size: 3 << 30, Type: "83", FS: "ext4", FSLabel: "EPHEMERAL"})
	r.links.Add(hal.Link{Name: network.Loopback, Loopback: true, MTU: 65536})
	r.newSupervisor()
	return r
}

// list returns the resources of a kind as the API lists them.
func (r *rig) list(kind resource.Kind) []resource.Resource {
	var out []resource.Resource
	for _, c := range r.store.Snapshot(kind) {
		out = append(out, c.Resource)
	}
	return out
}

// again returns the node after a restart: what is on its disks is the same.
func (r *rig) again(t *testing.T) *rig {
	t.Helper()
	next := newRig(t)
	next.root = r.root
	return next
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	mustDo(t, os.MkdirAll(filepath.Dir(path), 0o755))
	mustDo(t, os.WriteFile(path, []byte(text), 0o600))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// machine returns a machine whose sleeping ends the goroutine once the
// simulated machine has ended, as the real one ends PID 1.
func (r *rig) machine(slept *time.Duration, exit func()) machine {
	return machine{log: r.log, power: r.power, root: r.root, sleep: func(d time.Duration) {
		if r.power.Ending != fake.Alive {
			exit()
		}
		*slept += d
	}}
}
