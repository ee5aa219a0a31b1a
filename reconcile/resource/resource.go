// Package resource holds the kinds of resource of a node: what it is told to
// be (specs) and what it observes (statuses), and their fields as the API
// names them.
package resource

import "strconv"

// Kind is one of the closed set of kinds.
type Kind uint8

// The kinds, by namespace.
const (
	LinkSpecKind Kind = iota + 1
	AddressSpecKind
	RouteSpecKind
	HostnameSpecKind
	ResolverSpecKind
	LinkStatusKind
	AddressStatusKind
	RouteStatusKind
	LeaseStatusKind

	DiskStatusKind
	DiscoveredVolumeKind
	VolumeStatusKind
	MountStatusKind

	MachineConfigKind
	ServiceStatusKind
	TimeStatusKind
	RuntimeStatusKind
	PodStatusKind
	UpgradeStatusKind
	SlotStatusKind
	BootStatusKind
	InstallStatusKind
	MemoryStatusKind
	ControllerStatusKind

	kindEnd
)

// KindCount is the number of kinds. Their numbers run from 1 to it.
const KindCount = int(kindEnd) - 1

// Namespaces of the kinds.
const (
	Network = "network"
	Block   = "block"
	Runtime = "runtime"
)

// String returns the kind's name in the API, such as "LinkStatus".
func (k Kind) String() string {
	if k == 0 || k >= kindEnd {
		return ""
	}
	// The compiler counts: a kind without a name does not fit the type.
	return [KindCount]string([...]string{
		"LinkSpec", "AddressSpec", "RouteSpec", "HostnameSpec", "ResolverSpec",
		"LinkStatus", "AddressStatus", "RouteStatus", "LeaseStatus",
		"DiskStatus", "DiscoveredVolume", "VolumeStatus", "MountStatus",
		"MachineConfig", "ServiceStatus", "TimeStatus", "RuntimeStatus", "PodStatus", "UpgradeStatus",
		"SlotStatus", "BootStatus", "InstallStatus", "MemoryStatus", "ControllerStatus",
	})[k-1]
}

// Namespace returns the namespace that the kind lives in.
func (k Kind) Namespace() string {
	switch {
	case k >= LinkSpecKind && k <= LeaseStatusKind:
		return Network
	case k >= DiskStatusKind && k <= MountStatusKind:
		return Block
	case k >= MachineConfigKind && k <= ControllerStatusKind:
		return Runtime
	}
	return ""
}

// Kinds returns all kinds in their order.
func Kinds() []Kind {
	kinds := make([]Kind, 0, kindEnd-1)
	for k := Kind(1); k < kindEnd; k++ {
		kinds = append(kinds, k)
	}
	return kinds
}

// KindByName returns the kind that the API calls name.
func KindByName(name string) (Kind, bool) {
	for k := Kind(1); k < kindEnd; k++ {
		if k.String() == name {
			return k, true
		}
	}
	return 0, false
}

// Field is one field of a resource, formatted for the API.
type Field struct {
	Key   string
	Value string
}

// Resource is a value of one of the kinds. Resources are comparable structs:
// two are equal when they say the same.
type Resource interface {
	Kind() Kind
	// Key is unique within the kind.
	Key() Key
	// Fields returns the fields in the order in which they are printed.
	Fields() []Field
}

func flag(b bool) string      { return strconv.FormatBool(b) }
func number(n int64) string   { return strconv.FormatInt(n, 10) }
func count(n uint64) string   { return strconv.FormatUint(n, 10) }
func seconds(ns int64) string { return strconv.FormatFloat(float64(ns)/1e9, 'f', 1, 64) + "s" }
