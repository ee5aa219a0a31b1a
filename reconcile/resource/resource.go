// Package resource holds the kinds of resource of a node: what it is told to
// be (specs) and what it observes (statuses), and their fields as the API
// names them.
package resource

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
	MemoryStatusKind

	kindEnd
)

// Namespaces of the kinds.
const (
	Network = "network"
	Block   = "block"
	Runtime = "runtime"
)

// String returns the kind's name in the API, such as "LinkStatus".
func (k Kind) String() string {
	switch k {
	case LinkSpecKind:
		return "LinkSpec"
	case AddressSpecKind:
		return "AddressSpec"
	case RouteSpecKind:
		return "RouteSpec"
	case HostnameSpecKind:
		return "HostnameSpec"
	case ResolverSpecKind:
		return "ResolverSpec"
	case LinkStatusKind:
		return "LinkStatus"
	case AddressStatusKind:
		return "AddressStatus"
	case RouteStatusKind:
		return "RouteStatus"
	case DiskStatusKind:
		return "DiskStatus"
	case DiscoveredVolumeKind:
		return "DiscoveredVolume"
	case VolumeStatusKind:
		return "VolumeStatus"
	case MountStatusKind:
		return "MountStatus"
	case MachineConfigKind:
		return "MachineConfig"
	case ServiceStatusKind:
		return "ServiceStatus"
	case TimeStatusKind:
		return "TimeStatus"
	case RuntimeStatusKind:
		return "RuntimeStatus"
	case PodStatusKind:
		return "PodStatus"
	case UpgradeStatusKind:
		return "UpgradeStatus"
	case MemoryStatusKind:
		return "MemoryStatus"
	}
	return ""
}

// Namespace returns the namespace that the kind lives in.
func (k Kind) Namespace() string {
	switch {
	case k >= LinkSpecKind && k <= RouteStatusKind:
		return Network
	case k >= DiskStatusKind && k <= MountStatusKind:
		return Block
	case k >= MachineConfigKind && k <= MemoryStatusKind:
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

// Resource is a value of one of the kinds.
type Resource interface {
	Kind() Kind
	// ID is unique within the kind.
	ID() string
	// Fields returns the fields in the order in which they are printed.
	Fields() []Field
}
