package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"machined/reconcile/assembly"
	"machined/reconcile/block"
)

// templateDir holds what volumes are made of.
const templateDir = "/usr/share/machined"

// startControllers registers the controllers and starts what follows the kernel
// for them.
func (n *node) startControllers() error {
	if n.started {
		return nil
	}
	n.started = true
	cri, err := n.startCRI()
	if err != nil {
		n.log.Printf("containerd", "%v.", err)
	}
	parts := assembly.Node{
		Drivers: assembly.Drivers{
			Clock: n.clock, Host: n.host, Links: n.links, DHCP: n.dhcp, NTP: n.ntp, Blocks: n.blocks, Provisioner: n.provisioner,
			Disks: n.disks, Mounts: n.mounts, Files: n.files, Jobs: n.jobs, CRI: cri,
		},
		Places: assembly.Places{
			BootDisk: n.boot.BootDisk, Boot: n.boot.BootPartition, InRAM: n.boot.Netbooted, State: stateDir, Ephemeral: ephemeralDir, NewRoot: newRoot,
			Others:   []block.Place{{Volume: "SYSTEM", Target: "/"}, {Volume: "BOOT", Target: bootDir}},
			Resolver: n.at(resolvConf), Leases: n.at(leaseDir),
		},
		Settings: func() *assembly.Settings { return n.settings }, Hostname: n.hostname,
		Pods: assembly.Pods{
			LogDir: n.at(podLogDir), Prepare: n.preparePod, Check: checkPod, Bundles: n.bundles, Marker: n.at(importedMarker),
		},
		MayProvision: n.mayProvision, OnState: n.onState, Floor: n.built, Seed: n.seed,
	}
	for _, c := range append(parts.Controllers(), memory{}) {
		if err := n.reconciler.loop.Add(c); err != nil {
			return fmt.Errorf("start the controllers: %w", err)
		}
	}
	// The slot has the mount points; the initramfs, where a node stays whose slot
	// cannot be used, gets them here.
	for _, dir := range []string{stateDir, ephemeralDir} {
		if err := os.MkdirAll(n.at(dir), 0o755); err != nil {
			n.log.Printf("mounts", "%v.", err)
		}
	}
	n.startWatchers()
	n.reconcile(n.clock.SinceBoot())
	return nil
}

// startWatchers starts what follows the kernel for the controllers, and does not
// run yet.
func (n *node) startWatchers() {
	for i := range n.watchers {
		w := &n.watchers[i]
		if w.running || w.late && n.boot.Resident {
			continue
		}
		w.running = true
		n.spawn(w.name, func() {
			if err := w.run(n.kick); err != nil {
				n.log.Printf(w.name, "Changes are seen late: %v.", err)
			}
		})
	}
}

// mayProvision says why volumes cannot be made, "" when they can: what they are
// made of is in the slot's system, which a resident node gets later.
func (n *node) mayProvision() (why string, later bool) {
	_, err := os.Stat(n.at(templateDir))
	if errors.Is(err, fs.ErrNotExist) {
		return "what it is made of is in the slot's system, which is not in use", n.boot.Resident
	}
	if err != nil {
		return err.Error(), false
	}
	return "", false
}

// onState returns where a file of STATE is, "" while STATE is not there.
func (n *node) onState(name string) string {
	if !n.state.mounted {
		return ""
	}
	return n.at(stateDir + "/" + name)
}
