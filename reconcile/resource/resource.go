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
	case k >= MachineConfigKind && k <= UpgradeStatusKind:
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

// LinkStatus is a network interface as observed.
type LinkStatus struct {
	Name string
	Up   bool
	MTU  uint32 // bytes
	MAC  [6]byte
}

func (LinkStatus) Kind() Kind   { return LinkStatusKind }
func (s LinkStatus) ID() string { return s.Name }

// Fields implements Resource.
func (s LinkStatus) Fields() []Field {
	return []Field{
		{"name", s.Name},
		{"up", strconv.FormatBool(s.Up)},
		{"mtu", strconv.FormatUint(uint64(s.MTU), 10)},
		{"mac", formatMAC(s.MAC)},
	}
}

func formatMAC(mac [6]byte) string {
	const hex = "0123456789abcdef"
	out := make([]byte, 0, 17)
	for i, b := range mac {
		if i > 0 {
			out = append(out, ':')
		}
		out = append(out, hex[b>>4], hex[b&15])
	}
	return string(out)
}

// AddressStatus is an address of a link as observed.
type AddressStatus struct {
	Link    string
	Address string // address/bits
}

func (AddressStatus) Kind() Kind   { return AddressStatusKind }
func (s AddressStatus) ID() string { return s.Link + "/" + s.Address }

// Fields implements Resource.
func (s AddressStatus) Fields() []Field {
	return []Field{{"link", s.Link}, {"address", s.Address}}
}

// RouteStatus is a route of the main table as observed.
type RouteStatus struct {
	Link        string
	Destination string // address/bits
	Gateway     string // empty for a route to the link itself
	Metric      uint32
}

func (RouteStatus) Kind() Kind { return RouteStatusKind }

// ID tells routes to one destination apart by link and metric, as the kernel
// does.
func (s RouteStatus) ID() string {
	return s.Destination + "@" + s.Link + "#" + strconv.FormatUint(uint64(s.Metric), 10)
}

// Fields implements Resource.
func (s RouteStatus) Fields() []Field {
	return []Field{{"link", s.Link}, {"destination", s.Destination}, {"gateway", s.Gateway}}
}

// VolumeStatus is a volume of the node's own and how far it has come.
type VolumeStatus struct {
	Name   string // STATE
	Device string
	FS     string
	Label  string
	Phase  string // Ready, or Failed: and why
}

func (VolumeStatus) Kind() Kind   { return VolumeStatusKind }
func (s VolumeStatus) ID() string { return s.Name }

// Fields implements Resource.
func (s VolumeStatus) Fields() []Field {
	return []Field{{"name", s.Name}, {"device", s.Device}, {"fs", s.FS}, {"label", s.Label}, {"phase", s.Phase}}
}

// MountStatus is a file system that is mounted.
type MountStatus struct {
	Volume  string // name of the volume, or of the directory
	Source  string
	Target  string
	FSType  string
	Mounted bool
}

func (MountStatus) Kind() Kind   { return MountStatusKind }
func (s MountStatus) ID() string { return s.Target }

// Fields implements Resource.
func (s MountStatus) Fields() []Field {
	return []Field{
		{"volume", s.Volume}, {"source", s.Source}, {"target", s.Target}, {"fstype", s.FSType},
		{"mounted", strconv.FormatBool(s.Mounted)},
	}
}

// MachineConfig is the config that the node runs by, secrets replaced.
type MachineConfig struct {
	Source string // where it came from
	Bytes  string // YAML
	// Rejected names the sources that were passed over as invalid, and why.
	Rejected string
}

func (MachineConfig) Kind() Kind { return MachineConfigKind }
func (MachineConfig) ID() string { return "machine-config" }

// Fields implements Resource.
func (s MachineConfig) Fields() []Field {
	return []Field{{"bytes", s.Bytes}, {"source", s.Source}, {"rejected", s.Rejected}}
}

// ServiceStatus is a supervised service as observed.
type ServiceStatus struct {
	ServiceID string
	State     string
	Healthy   bool
	Message   string
}

func (ServiceStatus) Kind() Kind   { return ServiceStatusKind }
func (s ServiceStatus) ID() string { return s.ServiceID }

// Fields implements Resource.
func (s ServiceStatus) Fields() []Field {
	return []Field{
		{"service_id", s.ServiceID},
		{"state", s.State},
		{"healthy", strconv.FormatBool(s.Healthy)},
		{"message", s.Message},
	}
}
