// Package reconcile is the core of a node: a typed store of resources, and a
// loop that runs controllers over it until the machine is what its config says.
//
// It does no I/O, starts no goroutine and knows no clock: time comes in as an
// argument and effects go out through package hal. One goroutine owns the store
// and the loop. Others may read through Snapshot and Watch, under the lock that
// the store was made with.
package reconcile

import (
	"machined/reconcile/resource"
)

// Value is what a table holds: a comparable struct of one kind.
type Value interface {
	comparable
	resource.Resource
}

// Locker keeps readers on other goroutines from seeing half a change, such as
// a *sync.Mutex. It is held for the time of one change.
type Locker interface {
	Lock()
	Unlock()
}

// Owner is who writes a resource: a number that Register gives. 0 is nobody.
type Owner uint8

// maxOwners is set by the bits of Meta.Finalizers.
const maxOwners = 63

// Store holds the resources of a node, a table a kind.
type Store struct {
	LinkSpecs      Table[resource.LinkSpec]
	AddressSpecs   Table[resource.AddressSpec]
	RouteSpecs     Table[resource.RouteSpec]
	HostnameSpecs  Table[resource.HostnameSpec]
	ResolverSpecs  Table[resource.ResolverSpec]
	Links          Table[resource.LinkStatus]
	Addresses      Table[resource.AddressStatus]
	Routes         Table[resource.RouteStatus]
	Leases         Table[resource.LeaseStatus]
	Disks          Table[resource.DiskStatus]
	Discovered     Table[resource.DiscoveredVolume]
	Volumes        Table[resource.VolumeStatus]
	Mounts         Table[resource.MountStatus]
	MachineConfigs Table[resource.MachineConfig]
	Services       Table[resource.ServiceStatus]
	Time           Table[resource.TimeStatus]
	Runtimes       Table[resource.RuntimeStatus]
	Pods           Table[resource.PodStatus]
	Upgrades       Table[resource.UpgradeStatus]
	Slots          Table[resource.SlotStatus]
	Boots          Table[resource.BootStatus]
	Installs       Table[resource.InstallStatus]
	Memory         Table[resource.MemoryStatus]
	Controllers    Table[resource.ControllerStatus]

	tables [resource.KindCount]table
	lock   Locker
	moves  uint64
	owners []owner
}

// table is what all tables have in common.
type table interface {
	core() *tableCore
	change(out []Change, ev *event) []Change
	snapshot(out []Change) []Change
	teardownOwned(by Owner) (left int)
	letGo(by Owner)
}

// noLock is for a store that no other goroutine reads.
type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}

// NewStore returns an empty store. lock may be nil when nobody else reads it.
func NewStore(lock Locker) *Store {
	if lock == nil {
		lock = noLock{}
	}
	s := &Store{lock: lock}
	// In the order of the kinds. The compiler counts: a kind without its table
	// does not fit the type.
	s.tables = [resource.KindCount]table([...]table{
		&s.LinkSpecs, &s.AddressSpecs, &s.RouteSpecs, &s.HostnameSpecs, &s.ResolverSpecs,
		&s.Links, &s.Addresses, &s.Routes, &s.Leases,
		&s.Disks, &s.Discovered, &s.Volumes, &s.Mounts,
		&s.MachineConfigs, &s.Services, &s.Time, &s.Runtimes, &s.Pods, &s.Upgrades,
		&s.Slots, &s.Boots, &s.Installs, &s.Memory, &s.Controllers,
	})
	for i, t := range s.tables {
		// Numbers begin at 1: a watch from 0 is one that has seen nothing.
		*t.core() = tableCore{store: s, kind: resource.Kind(i + 1), seq: 1}
	}
	return s
}

// Moves returns the number of changes of all kinds so far.
func (s *Store) Moves() uint64 { return s.moves }

// Seq returns the sequence number of the last change of a kind.
func (s *Store) Seq(kind resource.Kind) uint64 { return s.tables[kind-1].core().seq }
