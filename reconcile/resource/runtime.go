package resource

import "strconv"

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

// MemoryStatus is the memory of the node and machined's own share of it, in
// units of 1024 bytes, as proc_meminfo(5) and proc_pid_status(5) have it.
type MemoryStatus struct {
	MemTotalKB     uint64
	MemAvailableKB uint64
	RSSAnonKB      uint64 // of machined: can not be evicted
	RSSFileKB      uint64 // of machined: pages of its program, evictable
}

func (MemoryStatus) Kind() Kind { return MemoryStatusKind }
func (MemoryStatus) ID() string { return "memory" }

// Fields implements Resource.
func (s MemoryStatus) Fields() []Field {
	return []Field{
		{"mem_total_kb", strconv.FormatUint(s.MemTotalKB, 10)},
		{"mem_available_kb", strconv.FormatUint(s.MemAvailableKB, 10)},
		{"rss_anon_kb", strconv.FormatUint(s.RSSAnonKB, 10)},
		{"rss_file_kb", strconv.FormatUint(s.RSSFileKB, 10)},
	}
}
