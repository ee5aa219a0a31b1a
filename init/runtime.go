package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"machined/api"
	"machined/hal"
	"machined/hal/linux"
	"machined/init/config"
	"machined/init/containerd"
	"machined/init/supervise"
	"machined/reconcile/block"
	"machined/reconcile/resource"
)

const (
	// runtimePatience is how long containerd may run without answering before it
	// is started again. A slow card needs half of that for its first start; one that
	// needs more gets it at the next, see supervise.Service.
	runtimePatience = 60 * time.Second
	// podsPatience bounds the end of all pods when the node goes down.
	podsPatience = 40 * time.Second
	// runtimeScore keeps the kernel from ending containerd for want of memory
	// while there is anything else.
	runtimeScore = -999
)

// containers is the container runtime as machined sees it: what the loop, its
// jobs and the API share.
type containers struct {
	cri *linux.CRI
	// config is that of the runtime, for jobs.
	config atomic.Pointer[config.Runtime]
	// suspect is set from a start of containerd until it has answered: one that
	// never does may have a damaged database.
	suspect atomic.Bool
	// reset asks for the runtime to begin anew at its next start.
	reset atomic.Bool
	// resetting is set while a call for that is carried out.
	resetting atomic.Bool
	logs      podLogs
}

// runtimeService is containerd as a service, nil when the config runs none.
func (n *node) runtimeService() *supervise.Service {
	c := n.loaded.Config.Machine.Runtime
	if c.Disabled {
		return nil
	}
	n.containers.config.Store(&c)
	return &supervise.Service{
		ID: config.ContainerdID, Command: []string{c.Binary, "--config", c.ConfigPath}, Env: containerd.Environment(memTotal()),
		Cgroup: runtimeCgroup, KillProcessOnly: true, OOMScoreAdj: runtimeScore,
		Volumes: []string{block.Ephemeral}, Restart: supervise.Always, StopGrace: int64(10 * time.Second),
		External: n.runtimeHealth, RestartUnhealthyAfter: int64(runtimePatience),
		Prepare:    func() hal.Job { return n.jobs.Start(func() error { return n.prepareRuntime(c) }) },
		BeforeStop: n.beforeRuntimeStops, BeforeStopWithin: int64(podsPatience),
	}
}

// runtimeHealth says whether containerd answers, as the store has it.
func (n *node) runtimeHealth() (healthy bool, why string) {
	s, _, ok := n.store.Runtimes.Get(resource.Named(config.ContainerdID))
	if ok && s.Ready {
		n.containers.suspect.Store(false)
		return true, ""
	}
	if s.Message == "" {
		return false, "it is not ready"
	}
	return false, s.Message
}

// prepareRuntime makes what containerd needs, in a job, before each start.
func (n *node) prepareRuntime(c config.Runtime) error {
	if err := n.repairRuntime(c); err != nil {
		return err
	}
	for _, dir := range append(containerd.Directories(), filepath.Dir(c.Socket), filepath.Dir(importedMarker), podLogDir) {
		if err := os.MkdirAll(n.at(dir), 0o711); err != nil {
			return fmt.Errorf("prepare containerd: %w", err)
		}
	}
	if err := n.writeRuntimeConfig(c); err != nil {
		return fmt.Errorf("prepare containerd: %w", err)
	}
	if err := n.loadRuntimeModules(); err != nil {
		n.log.Printf("modules", "%v.", err)
	}
	n.containers.suspect.Store(true)
	return nil
}

// writeRuntimeConfig writes the files that containerd and its network plugins
// read.
func (n *node) writeRuntimeConfig(c config.Runtime) error {
	network, err := containerd.Network(c.PodSubnet)
	if err != nil {
		return err
	}
	var mirrors []containerd.Mirror
	for _, r := range c.Registries {
		if len(r.Mirrors) > 0 {
			mirrors = append(mirrors, containerd.Mirror{Registry: r.Host, Endpoints: r.Mirrors})
		}
	}
	files, err := containerd.Hosts(mirrors)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(n.at(containerd.HostsDir)); err != nil {
		return err
	}
	if err := os.MkdirAll(n.at(containerd.HostsDir), 0o755); err != nil {
		return err
	}
	all := map[string][]byte{containerd.NetworkFile: network}
	for path, text := range files {
		all[filepath.Join(containerd.HostsDir, path)] = text
	}
	if c.AdoptConfig {
		if _, err := os.Stat(n.at(c.ConfigPath)); err != nil {
			return fmt.Errorf("use your own config of containerd: %w; put it there, or remove runtime.adopt_config", err)
		}
	} else {
		all[c.ConfigPath] = containerd.Config{Socket: c.Socket}.TOML()
	}
	for path, text := range all {
		if err := n.files.Replace(n.at(path), text, true); err != nil {
			if errors.Is(err, syscall.EROFS) {
				return fmt.Errorf("%w; runtime.config_path is to be below /run, or set runtime.adopt_config to use a file that is there", err)
			}
			return err
		}
	}
	return nil
}

// checkWithin bounds the look into containerd's databases.
const checkWithin = 5 * time.Minute

// repairRuntime finds out, for a containerd that did not come up, whether that is
// its database's fault, and moves what is damaged aside if that is allowed.
func (n *node) repairRuntime(c config.Runtime) error {
	if n.containers.reset.CompareAndSwap(true, false) {
		n.log.Printf("containerd", "What it has kept is moved aside, as was asked for.")
		return n.resetRuntime()
	}
	if !n.containers.suspect.Load() {
		return nil
	}
	said, err := n.runProgram(checkWithin, c.Binary, "verify", n.at(containerd.Root))
	if err == nil {
		return nil
	}
	if !errors.Is(err, errExit) {
		return fmt.Errorf("look into containerd's databases: %w", err)
	}
	if !c.ResetOnCorruption {
		return fmt.Errorf("containerd's database is damaged (%s); `machinectl runtime reset` moves it aside, and runtime.reset_on_corruption has that done at once", said)
	}
	n.log.Printf("containerd", "Its database is damaged (%s); what it has kept is moved aside.", said)
	return n.resetRuntime()
}

// resetRuntime ends all containers and moves what containerd has kept aside. Of
// an earlier time that it was done, nothing stays: a card is small.
func (n *node) resetRuntime() error {
	for _, cgroup := range []string{podsCgroup, runtimeCgroup} {
		if err := n.cgroups.Kill(cgroup); err != nil && !errors.Is(err, hal.ErrNotFound) {
			n.log.Printf("containerd", "%v.", err)
		}
	}
	time.Sleep(time.Second) // they end, and let go of their mounts
	if err := n.unmountBelow(containerd.State, containerd.Root); err != nil {
		return err
	}
	root, aside := n.at(containerd.Root), n.at(containerd.Root+".damaged")
	if err := os.RemoveAll(aside); err != nil {
		return fmt.Errorf("remove what was moved aside earlier: %w", err)
	}
	if err := os.Rename(root, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("move what containerd has kept aside: %w", err)
	}
	// The databases are kept for whoever looks into what has happened.
	for _, big := range []string{"io.containerd.content.v1.content", "io.containerd.snapshotter.v1.overlayfs/snapshots"} {
		if err := os.RemoveAll(filepath.Join(aside, big)); err != nil {
			n.log.Printf("containerd", "%v.", err)
		}
	}
	for _, gone := range []string{containerd.State, containerd.LeaseDir, importedMarker} {
		if err := os.RemoveAll(n.at(gone)); err != nil {
			n.log.Printf("containerd", "%v.", err)
		}
	}
	return nil
}

// unmountBelow detaches all that is mounted below directories.
func (n *node) unmountBelow(dirs ...string) error {
	all, err := n.mounts.List()
	if err != nil {
		return err
	}
	for i := len(all) - 1; i >= 0; i-- {
		for _, dir := range dirs {
			if below(all[i].Target, dir) {
				if err := n.mounts.Unmount(all[i].Target, true); err != nil && !errors.Is(err, hal.ErrNotMounted) {
					return fmt.Errorf("detach what containers have mounted: %w", err)
				}
			}
		}
	}
	return nil
}

func below(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel) && rel != "."
}

// ResetRuntime is a part of api.Node.
func (n *node) ResetRuntime(by string) error {
	s := n.running.Load()
	if s == nil || !s.Has(config.ContainerdID) {
		return api.ErrNoRuntime
	}
	if !n.containers.resetting.CompareAndSwap(false, true) {
		return nil // what was asked for is being done
	}
	n.log.Printf("containerd", "A reset was asked for by %s.", by)
	n.containers.reset.Store(true)
	n.spawn("containerd", func() {
		defer n.containers.resetting.Store(false)
		if err := s.restart(config.ContainerdID); err != nil {
			n.log.Printf("containerd", "%v.", err)
		}
	})
	return nil
}

// beforeRuntimeStops ends the pods while the node goes down, or before the
// runtime forgets them. They outlive a restart of containerd alone.
func (n *node) beforeRuntimeStops(down bool) hal.Job {
	if !down && !n.containers.reset.Load() {
		return nil
	}
	cri := n.containers.cri
	return n.jobs.Start(func() error { return stopPods(cri) })
}

// podGrace is how many seconds containers have to end while the node goes down.
const podGrace = 10

// stopPods ends all pods, all at once: each has its grace, and all have one
// deadline.
func stopPods(cri hal.CRI) error {
	sandboxes, all, err := cri.Pods()
	if err != nil {
		return fmt.Errorf("stop the pods: %w", err)
	}
	var wg sync.WaitGroup
	errs := make([]error, len(sandboxes))
	for i, s := range sandboxes {
		if !s.Ready {
			continue
		}
		wg.Go(func() {
			var ending sync.WaitGroup
			for _, c := range all {
				if c.Sandbox == s.ID && c.State == hal.ContainerRunning {
					ending.Go(func() { _ = cri.StopContainer(c.ID, podGrace) }) // StopPod kills what stays
				}
			}
			ending.Wait()
			errs[i] = cri.StopPod(s.ID)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// errExit says that a program has failed by itself.
var errExit = errors.New("it fails")

// runProgram runs one of the slot's programs to its end and returns the last line
// that it has printed. errExit when it exits with another code than 0.
func (n *node) runProgram(within time.Duration, command ...string) (last string, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	ended := make(chan hal.ExitStatus, 1)
	pid, err := n.processes.Start(hal.ProcessSpec{
		Argv: command, Env: []string{"PATH=/usr/bin:/usr/sbin", "GOMEMLIMIT=32MiB", "GOGC=50"},
		Stdout: int(w.Fd()), Stderr: int(w.Fd()), NoNewPrivs: true,
	}, func(s hal.ExitStatus) { ended <- s })
	w.Close()
	if err != nil {
		return "", err
	}
	var tail lastBytes
	read := make(chan struct{})
	go func() { defer close(read); _, _ = io.Copy(&tail, r) }()
	late := time.AfterFunc(within, func() { _ = n.processes.Signal(pid, 9) })
	defer late.Stop()
	status := <-ended
	// What it started might hold on to the pipe.
	select {
	case <-read:
	case <-time.After(time.Second):
	}
	last = tail.line()
	switch {
	case status.Signal != 0:
		return last, fmt.Errorf("%s was ended by signal %d: %s", command[0], status.Signal, last)
	case status.Code != 0:
		return last, fmt.Errorf("%w: %s", errExit, last)
	}
	return last, nil
}

// lastBytes keeps the end of what is written to it.
type lastBytes struct {
	mu   sync.Mutex
	kept []byte
}

// maxTail is how much of a program's output is kept.
const maxTail = 2048

func (l *lastBytes) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, b...)
	if len(l.kept) > maxTail {
		l.kept = append([]byte(nil), l.kept[len(l.kept)-maxTail:]...)
	}
	return len(b), nil
}

// line returns the last line that has anything in it.
func (l *lastBytes) line() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := bytes.TrimSpace(l.kept)
	return string(b[bytes.LastIndexByte(b, '\n')+1:])
}

// importWithin bounds the import of one file from a slow card.
const importWithin = 30 * time.Minute

// importImages has containerd's own program import a file of images: it brings
// the libraries for that, which PID 1 does without.
func (n *node) importImages(path string) error {
	c := n.containers.config.Load()
	if c == nil {
		return api.ErrNoRuntime
	}
	n.log.Printf("containerd", "Importing the images of %s.", path)
	_, err := n.runProgram(importWithin, c.Binary, "import", "--address", c.Socket, path)
	return err
}

// startCRI makes the driver of the container runtime, whether that is there yet
// or not. The program of the initramfs runs no containers, and has none.
func (n *node) startCRI() (hal.CRI, error) {
	if n.boot.Resident {
		return nil, nil
	}
	cri, err := linux.NewCRI(n.loaded.Config.Machine.Runtime.Socket, cgroupDir, podsCgroup, n.importImages)
	if err != nil {
		return nil, err
	}
	cri.MemoryMax = uint64(machineShares().each)
	n.containers.cri = cri
	n.watchers = append(n.watchers, watcher{name: "containerd", run: func(changed func()) error {
		return cri.Watch(context.Background(), changed)
	}})
	return cri, nil
}
