package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"machined/api"
	"machined/hal"
	"machined/hal/linux"
	"machined/hal/linux/volume"
	"machined/init/config"
	"machined/init/console"
	"machined/init/sequence"
	"machined/init/supervise"
	"machined/init/supervise/logring"
	"machined/init/upgrade"
	"machined/reconcile/assembly"
	"machined/reconcile/resource"
)

// node is a running stage 2. Its fields belong to the loop's goroutine, save
// those under mu.
type node struct {
	drivers
	log  *console.Log
	boot handover
	// root is where the file system begins: "" on a board, a directory of
	// their own in tests.
	root string

	loaded   config.Loaded
	settings *assembly.Settings // loaded, in the words of the core
	*reconciler
	reporter *reporter
	started  bool // the controllers are registered
	state    state
	// servicesBy is when services start without STATE, 0 when they have started
	// or never will.
	servicesBy int64
	// built is the Unix time of the sources in nanoseconds, 0 for unknown.
	built     int64
	refused   time.Time // what the clock was not raised to last
	clockSets uint64    // SyncCount that was followed last
	// renewTrouble is why the certificate could not be renewed then.
	renewTrouble string
	panics       map[string]bool // controllers that have panicked
	supervisor   *supervise.Supervisor
	// running is the supervisor once the services are the node's.
	running    atomic.Pointer[running]
	containers containers
	upgrades   upgrades
	// trialProbes are what the config wants to be asked of a system on trial.
	trialProbes trialProbes
	configs     configs
	// memoryLimits is set when the kernel can limit the memory of a cgroup.
	memoryLimits bool
	rings        *logring.Set // of what services print
	outputs      outputs
	sinks        sinks
	shown        shown
	netboot      netbooting
	installs     installs
	identity     *identity
	server       *api.Server
	listener     net.Listener
	serving      serving
	apiStatus    resource.ServiceStatus
	// systemStatus is set when the slot's system cannot be used.
	systemStatus *resource.ServiceStatus
	kicks        chan struct{}
	lock         sequence.Lock

	mu     sync.Mutex
	wanted *request // an ending that was asked for
	// cardBundle is the fingerprint of the client certificate that waits on
	// the card; empty when there is none.
	cardBundle string
	usedCard   bool       // it has authenticated
	preloaded  *preloaded // what the preload of a resident node found
	// succeeding is set from the moment at which no ending can be asked for any
	// more until the slot's program runs.
	succeeding bool
}

// drivers are the surfaces of the machine that a node works on.
type drivers struct {
	clock       hal.Clock
	host        hal.Host
	mounts      hal.Mounts
	power       hal.Power
	watchdog    hal.Watchdog // nil when there is none
	processes   hal.Processes
	cgroups     hal.Cgroups // nil for none
	disks       hal.Disks
	links       hal.Links
	dhcp        hal.DHCPClient
	files       hal.Files
	jobs        hal.Jobs
	blocks      hal.BlockDevices
	provisioner hal.Provisioner
	ntp         hal.NTP
	bootFiles   hal.BootFiles // nil for none
	// listenAPI opens a socket for the API.
	listenAPI func() (net.Listener, error)
	// watchers run beside the loop, and call changed when a driver has news.
	watchers []watcher
}

// watcher follows the kernel for a driver, until it fails.
type watcher struct {
	name string
	// late watchers are left to the program of the slot: reading all disks would
	// hold up the API on a slow card.
	late    bool
	run     func(changed func()) error
	running bool
}

// at returns where path is.
func (n *node) at(path string) string { return filepath.Join(n.root, path) }

// request is an ending, who asked for it, and why.
type request struct {
	end    ending
	by     string
	reason upgrade.Reason
	detail string // what there is to say beside who asked
	slot   string // that is to start next, "" where any will do
	// argument is the restart's for the firmware, see hal.Power.
	argument string
	kexec    bool // start the kernel that was loaded
	reset    resetMode
}

// say returns a printer for a component.
func (n *node) say(component string) func(string, ...any) {
	return func(format string, args ...any) { n.log.Printf(component, format, args...) }
}

// kick makes the loop run its next pass now.
func (n *node) kick() {
	select {
	case n.kicks <- struct{}{}:
	default:
	}
}

// respawnDelay is the pause after a background task that panicked, doubled each
// time up to respawnMax: each panic is kept on the card.
const respawnDelay, respawnMax = 5 * time.Second, 10 * time.Minute

// spawn runs a background task. One that panics is reported and started again:
// it must not take PID 1 with it.
func (n *node) spawn(name string, run func()) {
	go func() {
		for delay := respawnDelay; ; delay = min(2*delay, respawnMax) {
			err := guarded(func() error { run(); return nil })
			if err == nil {
				return
			}
			n.log.Printf(name, "Starting again after %s: %v.", delay, err)
			keepCrash(n.root, fmt.Errorf("%s: %w", name, err))
			time.Sleep(delay)
		}
	}()
}

// ask requests an ending by a person. It may be called from any goroutine.
func (n *node) ask(end ending, by string) error {
	return n.askFor(request{end: end, by: by, reason: upgrade.ByUser})
}

// priority is that of the sequence to a request's ending.
func (r request) priority() sequence.Priority {
	switch {
	case r.end == powerOff:
		return sequence.Shutdown
	case r.reset != resetNone:
		return sequence.Reset
	}
	return sequence.Reboot
}

// askFor requests an ending. It may be called from any goroutine.
func (n *node) askFor(r request) error {
	priority := r.priority()
	if err := n.lock.Take(priority); err != nil {
		return fmt.Errorf("%w: %w", api.ErrBusy, err)
	}
	err := n.want(r)
	if err != nil {
		n.lock.Release(priority)
	}
	return err
}

// want has the node end, for a caller that has the lock. Of two endings that were
// granted the one of the higher priority happens, and a reset is part of either.
func (n *node) want(r request) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.succeeding {
		// It would be forgotten with this program.
		return fmt.Errorf("%w: the node is handing over to the slot's program, try again in a moment", api.ErrBusy)
	}
	if w := n.wanted; w != nil {
		reset := r.reset
		if reset == resetNone {
			reset = w.reset
		}
		if w.priority() > r.priority() {
			r = *w
		}
		r.reset = reset
	}
	n.wanted = &r
	n.kick()
	return nil
}

func (n *node) requested() *request {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.wanted
}

// The methods below implement api.Node; they run on the API's goroutines.

func (n *node) Version() api.Version {
	v := api.Version{Version: version, ImageID: n.boot.Image, Board: n.boot.Board, Slot: n.boot.Slot}
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		v.BootID = strings.TrimSpace(string(b))
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		v.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	return v
}

// stateFile is where a file of STATE is, "" while STATE is not there. It may be
// called from any goroutine.
func (n *node) stateFile(name string) string {
	if _, err := os.Stat(n.at(stateMarker)); err != nil {
		return ""
	}
	return n.at(stateDir + "/" + name)
}

func (n *node) Reboot(by string) error   { return n.ask(restart, by) }
func (n *node) Shutdown(by string) error { return n.ask(powerOff, by) }

func (n *node) Used(fingerprint string) {
	n.mu.Lock()
	first := n.cardBundle != "" && fingerprint == n.cardBundle && !n.usedCard
	n.usedCard = n.usedCard || first
	n.mu.Unlock()
	if first {
		n.kick()
	}
}

var _ api.Node = (*node)(nil)

// panicked keeps what a controller panicked with first, and not at each of its
// retries: they go on for ever, and a card wears. The loop goes on.
func (n *node) panicked(controller string, err error) {
	if n.panics[controller] {
		return
	}
	if n.panics == nil {
		n.panics = make(map[string]bool)
	}
	n.panics[controller] = true
	keepCrash(n.root, fmt.Errorf("controller %s: %w", controller, err))
}

// newNode returns a node on the real drivers.
func newNode(log *console.Log, h handover) (*node, error) {
	links, err := linux.NewLinks()
	if err != nil {
		return nil, err
	}
	n := &node{log: log, boot: h, built: builtAt(), kicks: make(chan struct{}, 1), rings: logring.NewSet(logring.DefaultTotal)}
	own := n.rings.Ring(machinedLog, 0)
	log.Follow(func(component, sentence string) {
		own.Append(time.Now().UnixNano(), logring.Stdout, []byte(component+": "+sentence))
	})
	blocks := linux.NewBlockDevices("/sys", "/dev")
	disks := linux.Disks{}
	n.drivers = drivers{
		clock: linux.Clock{}, host: linux.Host{ProcSys: "/proc/sys"}, mounts: linux.Mounts{}, power: linux.Power{},
		disks: disks, links: links, processes: linux.NewProcesses(linux.NewReaper(), cgroupDir),
		cgroups: linux.Cgroups{Root: cgroupDir},
		dhcp:    linux.NewDHCP(n.kick), ntp: linux.NTP{Resolver: resolvConf}, files: &linux.Files{}, jobs: linux.NewJobs(n.kick),
		blocks: blocks, listenAPI: listenAPI, provisioner: volume.NewProvisioner(disks, templateDir),
		watchers: []watcher{{name: "network", run: links.Watch}, {name: "disks", late: true, run: func(changed func()) error {
			blocks.Run(context.Background(), changed, func(err error) { log.Printf("disks", "%v.", err) })
			return nil
		}}},
	}
	if n.reconciler, err = newReconciler(n.panicked); err != nil {
		return nil, err
	}
	n.reporter = newReporter(n.store, n.log.Printf, func() bool { return n.boot.Resident })
	if h.WatchdogFD >= 0 {
		n.watchdog = linux.InheritWatchdog(watchdogPath, h.WatchdogFD)
	}
	if h.Netbooted {
		n.startNetboot()
		return n, nil
	}
	n.bootFiles = &linux.BootFiles{Dir: bootDir, Remount: linux.RemountBoot(n.mounts, bootMount(h.BootPartition))}
	return n, nil
}
