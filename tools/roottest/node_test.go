package roottest

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"machined/hal"
	"machined/hal/linux"
	"machined/reconcile"
	"machined/reconcile/network"
	"machined/reconcile/resource"
	"machined/reconcile/timesync"
	"machined/tools/netlab"
)

// node is the network and time part of machined, on the real drivers, in real
// time. It lives in the test's own network namespace.
type node struct {
	t     *testing.T
	root  string // directory of its files
	clock *wallClock
	kicks chan struct{}
	work  chan func()
	stop  chan struct{}
	ended chan struct{}

	store    *reconcile.Store
	loop     *reconcile.Loop
	by       reconcile.Owner
	settings atomic.Pointer[network.Settings]
	passes   atomic.Uint64
	round    int
}

// wallClock is the real clock, but that nobody can set: it belongs to the whole
// machine.
type wallClock struct {
	linux.Clock
	mu    sync.Mutex
	slews []int64
	sets  []int64
}

func (c *wallClock) Set(nanos int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sets = append(c.sets, nanos)
	return nil
}

func (c *wallClock) Slew(nanos int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slews = append(c.slews, nanos)
	return nil
}

const runDir, keepDir, resolvConf = "/run/dhcp", "/state/dhcp", "/run/resolv.conf"

// startNode starts the program with its files below root. It ends with the test
// or by end.
func startNode(t *testing.T, root string, settings network.Settings) *node {
	t.Helper()
	n := &node{
		t: t, root: root, clock: &wallClock{}, kicks: make(chan struct{}, 1), work: make(chan func()), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	n.settings.Store(&settings)
	n.build()
	go n.run()
	t.Cleanup(n.end)
	return n
}

func (n *node) kick() {
	select {
	case n.kicks <- struct{}{}:
	default:
	}
}

func (n *node) build() {
	n.t.Helper()
	links, err := linux.NewLinks()
	if err != nil {
		n.t.Fatal(err)
	}
	// Cables of tests are virtual.
	links.Physical = func(name string) bool { return strings.HasPrefix(name, "eth") }
	go func() { _ = links.Watch(n.kick) }() // until the process ends
	host := linux.Host{ProcSys: "/proc/sys"}
	files, jobs := &linux.Files{Root: n.root}, linux.NewJobs(n.kick)
	n.store = reconcile.NewStore(new(sync.Mutex))
	if n.loop, err = reconcile.NewLoop(n.store, 1); err != nil {
		n.t.Fatal(err)
	}
	for _, c := range []reconcile.Controller{
		&network.Observe{Links: links},
		&network.DHCP{
			Client: linux.NewDHCP(n.kick), Files: files, Jobs: jobs, Hostname: func() string { return "node" }, Run: runDir,
			Keep: func() string { return keepDir }, Seed: 99,
		},
		&network.Config{Settings: n.settings.Load}, &network.Apply{Links: links, Host: host},
		&network.Hostname{Settings: n.settings.Load, Host: host},
		&network.Resolver{Settings: n.settings.Load, Files: files, Path: resolvConf},
		&timesync.Sync{
			Settings: func() *timesync.Settings { return &timesync.Settings{} }, Clock: n.clock, NTP: linux.NTP{}, Jobs: jobs, Seed: 5,
		},
	} {
		if err := n.loop.Add(c); err != nil {
			n.t.Fatal(err)
		}
	}
	if n.by, err = n.store.Register("test", reconcile.Output{Kind: resource.MachineConfigKind}); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) run() {
	defer close(n.ended)
	timer := time.NewTimer(0)
	for {
		now := time.Duration(n.clock.SinceBoot())
		timer.Reset(min(n.loop.Pass(now)-now, 5*time.Second))
		n.passes.Add(1)
		select {
		case <-n.kicks:
		case <-timer.C:
		case work := <-n.work:
			work()
		case <-n.stop:
			return
		}
	}
}

// end stops the program without a word to anybody, as a power cut does. What the
// kernel has stays.
func (n *node) end() {
	select {
	case <-n.stop:
	default:
		close(n.stop)
	}
	<-n.ended
}

// reboot ends the program, takes from the kernel what it had made, and starts it
// anew.
func (n *node) reboot(link string) *node {
	n.t.Helper()
	n.end()
	_ = (&linux.Files{Root: n.root}).Remove(runDir + "/" + link)
	netlab.Run(n.t, "ip", "link", "set", link, "down")
	netlab.Run(n.t, "ip", "addr", "flush", "dev", link)
	return startNode(n.t, n.root, *n.settings.Load())
}

func (n *node) configure(s network.Settings) {
	n.t.Helper()
	n.settings.Store(&s)
	done := make(chan error)
	n.work <- func() {
		n.round++
		done <- n.store.MachineConfigs.Put(n.by, resource.MachineConfig{Source: "test", Bytes: strconv.Itoa(n.round)})
	}
	if err := <-done; err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) lease(link string) resource.LeaseStatus {
	for _, c := range n.store.Snapshot(resource.LeaseStatusKind) {
		if l := c.Resource.(resource.LeaseStatus); l.Link == link {
			return l
		}
	}
	return resource.LeaseStatus{}
}

func (n *node) time() resource.TimeStatus {
	for _, c := range n.store.Snapshot(resource.TimeStatusKind) {
		return c.Resource.(resource.TimeStatus)
	}
	return resource.TimeStatus{}
}

// bound waits for a lease and its address.
func (n *node) bound(link string) resource.LeaseStatus {
	n.t.Helper()
	eventually(n.t, "lease on "+link, func() bool {
		l := n.lease(link)
		return l.State == "BOUND" && hasAddress(link, l.Address)
	})
	return n.lease(link)
}

// file returns a file of the node, "" when it is not there.
func (n *node) file(path string) string {
	b, err := (&linux.Files{Root: n.root}).Read(path)
	if err != nil {
		return ""
	}
	return string(b)
}

// failures are the errors of controllers, as they stand.
func (n *node) failures() []string {
	var all []string
	for _, c := range n.store.Snapshot(resource.ControllerStatusKind) {
		if s := c.Resource.(resource.ControllerStatus); s.LastError != "" {
			all = append(all, s.Name+": "+s.LastError)
		}
	}
	return all
}

func (n *node) expectNoFailures() {
	n.t.Helper()
	if all := n.failures(); len(all) > 0 {
		n.t.Errorf("controllers fail: %q", all)
	}
}

// show is what ip(8) says, which knows nothing of our drivers.
func show(args ...string) string {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return "ip " + strings.Join(args, " ") + ": " + err.Error()
	}
	return string(out)
}

func hasAddress(link string, p hal.Prefix) bool {
	return strings.Contains(show("-o", "addr", "show", "dev", link), " "+p.String()+" ")
}

// hasRoute reports whether a route begins with those words.
func hasRoute(family, link, words string) bool {
	return slices.ContainsFunc(strings.Split(show(family, "route", "show", "dev", link), "\n"), func(l string) bool {
		return strings.HasPrefix(l+" ", words+" ")
	})
}

func newRoot(t *testing.T) string { return filepath.Join(t.TempDir(), "node") }
