// Package assembly puts the controllers of a node together, on real drivers or on
// simulated ones.
package assembly

import (
	"machined/hal"
	"machined/reconcile"
	"machined/reconcile/block"
	"machined/reconcile/network"
	"machined/reconcile/runtime"
	"machined/reconcile/timesync"
)

// Drivers are the surfaces of the machine that the controllers work on.
type Drivers struct {
	Clock       hal.Clock
	Host        hal.Host
	Links       hal.Links
	DHCP        hal.DHCPClient
	NTP         hal.NTP
	Blocks      hal.BlockDevices
	Provisioner hal.Provisioner
	Disks       hal.Disks
	Mounts      hal.Mounts
	Files       hal.Files
	Jobs        hal.Jobs
	CRI         hal.CRI // nil on a node that runs no containers
}

// Settings are a machine config in the words of the core.
type Settings struct {
	Network network.Settings
	Block   block.Settings
	Time    timesync.Settings
	Runtime runtime.Settings
}

// Places say where things are on the node.
type Places struct {
	// BootDisk is the name of the disk that the node was booted from, Boot the
	// path of its partition; "" when there is none.
	BootDisk, Boot string
	// InRAM has volumes in RAM where no disk has a STATE: the node was booted from
	// no disk.
	InRAM bool
	// State and Ephemeral are the mount points of the volumes, Others those of
	// other file systems, and NewRoot that of a root that is not in use yet.
	State, Ephemeral, NewRoot string
	Others                    []block.Place
	// Resolver is the resolver's file, Leases a directory for the leases of
	// this boot; both are fast to write.
	Resolver, Leases string
}

// Node is what the controllers ask of their surroundings.
type Node struct {
	Drivers
	Places
	// Settings returns the present settings. They move with MachineConfig.
	Settings func() *Settings
	// Hostname is the name that DHCP servers are told.
	Hostname func() string
	// MayProvision says why volumes cannot be made, "" when they can, and
	// whether they can later.
	MayProvision func() (why string, later bool)
	// OnState returns where a file of STATE is, "" while STATE is not there.
	OnState func(name string) string
	// Floor is the Unix time in nanoseconds before which no time is believed; see
	// timesync.Ceiling for the one from which on none is.
	Floor int64
	// Seed spreads retries.
	Seed uint64
	// Pods is what the pods need of the node beside the CRI; see the fields of
	// runtime.Pods and runtime.Importer.
	Pods Pods
}

// Pods are the surroundings of pods.
type Pods struct {
	LogDir  string
	Prepare func(*runtime.Pod) error
	Check   func(p runtime.Probe, address string) error
	Bundles func() ([]runtime.Bundle, error)
	Marker  string
}

// Names of files on STATE.
const (
	LeasesName = "dhcp"
	ClockName  = "clock"
)

// Controllers returns the controllers in the order in which a pass runs them:
// what is observed before what is decided, and that before what is done.
func (n *Node) Controllers() []reconcile.Controller {
	settings := func() *network.Settings { return &n.Settings().Network }
	places := append([]block.Place{{Volume: block.State, Target: n.State}, {Volume: block.Ephemeral, Target: n.Ephemeral}}, n.Others...)
	controllers := []reconcile.Controller{
		&network.Observe{Links: n.Links},
		&network.DHCP{
			Client: n.DHCP, Files: n.Files, Jobs: n.Jobs, Hostname: n.Hostname, Run: n.Leases, Seed: n.Seed,
			Keep: func() string { return n.OnState(LeasesName) },
		},
		&network.Config{Settings: settings},
		&network.Apply{Links: n.Links, Host: n.Host},
		&network.Hostname{Settings: settings, Host: n.Host},
		&network.Resolver{Settings: settings, Files: n.Files, Path: n.Resolver},
		&block.Discover{Blocks: n.Blocks},
		&block.Volumes{
			Settings: func() *block.Settings { return &n.Settings().Block },
			Blocks:   n.Blocks, Provisioner: n.Provisioner, Disks: n.Disks, Mounts: n.Mounts, Jobs: n.Jobs,
			BootDisk: n.BootDisk, Boot: n.Boot, InRAM: n.InRAM, Targets: [2]string{n.State, n.Ephemeral}, MayProvision: n.MayProvision,
		},
		&block.Mounts{Mounts: n.Mounts, Places: places, Skip: n.NewRoot},
		&timesync.Sync{
			Settings: func() *timesync.Settings { return &n.Settings().Time },
			Clock:    n.Clock, NTP: n.NTP, Jobs: n.Jobs, Floor: n.Floor, Seed: n.Seed,
		},
		&timesync.Keep{Clock: n.Clock, Files: n.Files, Jobs: n.Jobs, Path: func() string { return n.OnState(ClockName) }, Floor: n.Floor},
	}
	if n.CRI != nil {
		controllers = append(controllers, n.containers()...)
	}
	return controllers
}

func (n *Node) containers() []reconcile.Controller {
	settings := func() *runtime.Settings { return &n.Settings().Runtime }
	pods := &runtime.Pods{
		Settings: settings, CRI: n.CRI, Jobs: n.Jobs, LogDir: n.Pods.LogDir, Prepare: n.Pods.Prepare, Check: n.Pods.Check,
		Images: &runtime.Importer{Bundles: n.Pods.Bundles, Files: n.Files, Marker: n.Pods.Marker},
	}
	return []reconcile.Controller{
		&runtime.Status{Settings: settings, CRI: n.CRI, Jobs: n.Jobs}, pods,
		&runtime.Collect{Settings: settings, CRI: n.CRI, Jobs: n.Jobs, Pods: pods},
	}
}
