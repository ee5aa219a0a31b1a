package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"machined/hal"
	"machined/init/config"
	"machined/init/sequence"
	"machined/reconcile/network"
	"machined/reconcile/resource"
)

const (
	configName  = "config.yaml"
	cardDir     = bootDir + "/machined" // ours on the boot partition
	imageConfig = "/etc/machined/config.yaml"
	cgroupDir   = "/sys/fs/cgroup"
	resolvConf  = "/run/machined/resolv.conf"
	leaseDir    = "/run/machined/dhcp"
)

// stage2 is the node: it boots, runs until an ending is asked for, and goes
// down. It returns with the machine ready to be reset or switched off.
func (n *node) stage2() (request, error) {
	n.feed()
	if err := sequence.Run(n.bootTasks(), n.taskFailed); err != nil {
		return request{}, err
	}
	if n.boot.Resident {
		n.spawn("succession", n.preload)
	} else {
		n.log.Printf("boot", "Done: machined %s, %s, config from %s.", version, n.boot.system(), n.loaded.Source)
	}
	r, err := n.loop()
	if err != nil {
		return request{}, err
	}
	n.down(r)
	return *n.requested(), nil
}

// bootTasks are the steps to the loop. Most are optional: a node with an API
// and one thing broken can be repaired from afar.
func (n *node) bootTasks() []sequence.Task {
	tasks := append([]sequence.Task{{Name: "ctrl-alt-del", Optional: true, Run: n.power.CatchCtrlAltDel}}, n.apiTasks()...)
	if n.boot.Resident {
		return append(tasks, sequence.Task{Name: "services", Run: n.withoutServices})
	}
	return append(tasks, n.lateTasks()...)
}

// apiTasks are the steps that the API stands on.
func (n *node) apiTasks() []sequence.Task {
	return []sequence.Task{
		{Name: "clock", Optional: true, Run: func() error { return n.raiseClock(time.Unix(0, n.built)) }},
		{Name: "state", Optional: true, Run: n.mountState},
		{Name: "kept clock", Optional: true, Run: n.raiseToKept},
		{Name: "config", Run: n.loadConfig},
		{Name: "controllers", Run: n.startControllers},
		{Name: "identity", Optional: true, Run: n.loadIdentity},
		{Name: "api", Optional: true, Run: n.startAPI},
	}
}

// lateTasks are the steps that a resident node leaves to its successor.
func (n *node) lateTasks() []sequence.Task {
	return []sequence.Task{
		{Name: "mounts", Optional: true, Run: n.mountRest},
		{Name: "cgroups", Optional: true, Run: n.makeCgroups},
		{Name: "watchdog", Optional: true, Run: n.configureWatchdog},
		{Name: "sysctls", Optional: true, Run: n.setSysctls},
		{Name: "logs", Optional: true, Run: func() error { n.startSinks(); return nil }},
		{Name: "services", Run: n.holdServices},
		{Name: "power button", Optional: true, Run: n.watchPowerButton},
		{Name: "modules", Optional: true, Run: n.loadModules},
		{Name: "timers", Optional: true, Run: func() error { return n.processes.SetTimerSlack(timerSlack) }},
	}
}

// timerSlack is how late this program's timers may be, in nanoseconds. The Go
// runtime's monitor thread sleeps for 20 µs at a time whenever there is work, on
// a slow board thousands of times a minute; with this it does once in several
// milliseconds.
const timerSlack = 4_000_000

func (n *node) taskFailed(task string, err error) {
	n.log.Printf(task, "%v.", err)
	var p *sequence.PanicError
	if errors.As(err, &p) {
		keepCrash(n.root, fmt.Errorf("boot task %s: %w\n%s", task, err, p.Stack))
	}
}

// mountRest mounts what payloads expect beside that which stage 1 mounted.
func (n *node) mountRest() error {
	for _, m := range []hal.Mount{
		{Source: "devpts", Target: "/dev/pts", FSType: "devpts", Flags: hal.NoSuid | hal.NoExec, Data: "mode=0620,ptmxmode=0666"},
		{Source: "tmpfs", Target: "/dev/shm", FSType: "tmpfs", Flags: hal.NoSuid | hal.NoDev, Data: "mode=1777"},
		{Source: "tmpfs", Target: "/tmp", FSType: "tmpfs", Flags: hal.NoSuid | hal.NoDev, Data: "mode=1777,size=10%"},
	} {
		if err := os.MkdirAll(n.at(m.Target), 0o755); err != nil {
			n.log.Printf("mounts", "%v.", err)
			continue
		}
		if err := n.mounts.Mount(m); err != nil {
			n.log.Printf("mounts", "%v.", err)
		}
	}
	if _, err := os.Stat(n.at(pstoreDir)); err == nil {
		m := hal.Mount{Source: "pstore", Target: pstoreDir, FSType: "pstore", Flags: hal.NoSuid | hal.NoDev | hal.NoExec}
		if err := n.mounts.Mount(m); err != nil {
			n.log.Printf("mounts", "%v.", err)
		}
	}
	return n.mountCgroups()
}

// mountCgroups mounts the hierarchy of cgroups, if the program of the initramfs
// has not done so.
func (n *node) mountCgroups() error {
	all, err := n.mounts.List()
	if err != nil {
		return err
	}
	if _, there := mountedAt(all, n.at(cgroupDir)); there {
		return nil
	}
	if err := os.MkdirAll(n.at(cgroupDir), 0o755); err != nil {
		return err
	}
	// Without the option, the memory that a cgroup is left does not reach those
	// below it, such as containerd's.
	return n.mounts.Mount(hal.Mount{
		Source: "cgroup2", Target: cgroupDir, FSType: "cgroup2", Flags: hal.NoSuid | hal.NoDev | hal.NoExec, Data: "memory_recursiveprot",
	})
}

// loadConfig reads the first valid config and reports the ones passed over.
func (n *node) loadConfig() error {
	var sources []config.Source
	var paths []string
	for age := range keptConfigs + 1 {
		paths = append(paths, configPath(age))
	}
	for _, path := range append(paths, filepath.Join(cardDir, configName)) {
		sources = append(sources, config.Source{Name: path, Read: func() ([]byte, error) { return readConfig(n.at(path)) }})
	}
	sources = append(sources, n.netbootConfigs()...)
	n.loaded = config.Load(sources)
	status := resource.MachineConfig{Source: n.loaded.Source}
	for _, r := range n.loaded.Rejected {
		n.log.Printf("config", "%s.", r.Summary())
		status.Rejected += r.Summary() + "\n"
		for _, line := range r.Details() {
			n.log.Printf("config", "%s.", line)
			status.Rejected += line + "\n"
		}
	}
	for _, w := range n.loaded.Warnings {
		n.log.Printf("config", "%v.", w)
	}
	redacted, err := config.Redact(n.loaded.Raw)
	if err != nil {
		redacted = nil // it may hold secrets; the node runs by it all the same
		n.log.Printf("config", "It is not shown: %v.", err)
	}
	status.Bytes = string(redacted)
	n.settings = newSettings(n.loaded.Config.Machine)
	if n.installsSystem() {
		// The volumes are where the node boots from, and it will from there.
		n.settings.Block.Disk, n.settings.Block.Selector, n.settings.Block.Wipe = "", nil, false
	}
	now := n.loaded
	n.configs.mu.Lock()
	n.configs.now = &now
	n.configs.mu.Unlock()
	n.put(n.store.MachineConfigs.Put(n.by, status))
	return nil
}

// maxConfig is one byte more than a config may have, so that a longer one is
// seen to be too long without being read.
const maxConfig = 1<<20 + 1

func readConfig(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxConfig))
}

// hostname is the name that the config gives, or the default: DHCP's may be
// another on each network.
func (n *node) hostname() string {
	if h := n.loaded.Config.Machine.Hostname; h != "" {
		return h
	}
	return network.DefaultHostname
}

// setSysctls applies what it can: one bad sysctl must not cost the others.
func (n *node) setSysctls() error {
	for _, s := range n.loaded.Config.Machine.Sysctls {
		if err := n.host.SetSysctl(s.Key, s.Value); err != nil {
			n.log.Printf("sysctls", "%v.", err)
		}
	}
	return nil
}
