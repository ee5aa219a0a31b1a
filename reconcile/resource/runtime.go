package resource

// MachineConfig is the config that the node runs by, secrets replaced.
type MachineConfig struct {
	Source string // where it came from
	Bytes  string // YAML
	// Rejected names the sources that were passed over as invalid, and why.
	Rejected string
}

func (MachineConfig) Kind() Kind { return MachineConfigKind }
func (MachineConfig) Key() Key   { return Named("machine-config") }

// Fields implements Resource.
func (s MachineConfig) Fields() []Field {
	return []Field{{"bytes", s.Bytes}, {"source", s.Source}, {"rejected", s.Rejected}}
}

// ServiceStatus is a supervised service as observed.
type ServiceStatus struct {
	ServiceID string
	State     string
	Healthy   bool // what those who depend on it wait for
	Message   string
	Restarts  uint64 // after its first start
	// FailuresInRow are those without a minute of running between them.
	FailuresInRow uint64
	LastExit      string // how its process ended last
	LastOutput    string // what a process that failed printed last
	OOMKills      uint64 // of its processes, for want of memory
	Critical      bool   // it decides whether an upgrade is kept
	SinceNS       int64  // when the state or the health changed, after boot
	PID           int64  // of its process, 0 for none
}

func (ServiceStatus) Kind() Kind { return ServiceStatusKind }
func (s ServiceStatus) Key() Key { return Named(s.ServiceID) }

// Fields implements Resource.
func (s ServiceStatus) Fields() []Field {
	return []Field{
		{"service_id", s.ServiceID},
		{"state", s.State},
		{"healthy", flag(s.Healthy)},
		{"message", s.Message},
		{"restarts", count(s.Restarts)},
		{"failures_in_row", count(s.FailuresInRow)},
		{"last_exit", s.LastExit},
		{"last_output", s.LastOutput},
		{"oom_kills", count(s.OOMKills)},
		{"critical", flag(s.Critical)},
		{"since", seconds(s.SinceNS)},
		{"pid", number(s.PID)},
	}
}

// MemoryStatus is the memory of the node, and what machined itself costs, in
// units of 1024 bytes, as proc_meminfo(5) and proc_pid_status(5) have it.
type MemoryStatus struct {
	MemTotalKB     uint64
	MemAvailableKB uint64
	RSSAnonKB      uint64 // of machined: can not be evicted
	RSSFileKB      uint64 // of machined: pages of its program, evictable
	WakeUps        uint64 // of machined's threads since its start
	CPUMS          uint64 // of machined since its start, in milliseconds
	Goroutines     uint64 // of machined
	OpenFiles      uint64 // of machined
}

func (MemoryStatus) Kind() Kind { return MemoryStatusKind }
func (MemoryStatus) Key() Key   { return Named("memory") }

// Fields implements Resource.
func (s MemoryStatus) Fields() []Field {
	return []Field{
		{"mem_total_kb", count(s.MemTotalKB)},
		{"mem_available_kb", count(s.MemAvailableKB)},
		{"rss_anon_kb", count(s.RSSAnonKB)},
		{"rss_file_kb", count(s.RSSFileKB)},
		{"wake_ups", count(s.WakeUps)},
		{"cpu_ms", count(s.CPUMS)},
		{"goroutines", count(s.Goroutines)},
		{"open_files", count(s.OpenFiles)},
	}
}

// TimeStatus says whether the clock is synchronised, and why not.
type TimeStatus struct {
	Synced    bool
	Server    string // the one that the clock follows
	OffsetNS  int64  // what was measured last
	SyncCount uint64 // how often the clock was set or slewed since boot
	Message   string
}

func (TimeStatus) Kind() Kind { return TimeStatusKind }
func (TimeStatus) Key() Key   { return Named("time") }

// Fields implements Resource.
func (s TimeStatus) Fields() []Field {
	return []Field{
		{"synced", flag(s.Synced)}, {"server", s.Server}, {"offset_ns", number(s.OffsetNS)},
		{"sync_count", count(s.SyncCount)}, {"message", s.Message},
	}
}

// RuntimeStatus is the container runtime as its CRI reports it.
type RuntimeStatus struct {
	Ready   bool
	Name    string
	Version string
	// NetworkReady says that pods with a network of their own can be run.
	NetworkReady bool
	Message      string // why it is not ready
}

func (RuntimeStatus) Kind() Kind { return RuntimeStatusKind }
func (s RuntimeStatus) Key() Key { return Named(s.Name) }

// Fields implements Resource.
func (s RuntimeStatus) Fields() []Field {
	return []Field{
		{"ready", flag(s.Ready)}, {"name", s.Name}, {"version", s.Version},
		{"network_ready", flag(s.NetworkReady)}, {"message", s.Message},
	}
}

// PodStatus is a pod as observed.
type PodStatus struct {
	Name        string
	Phase       string
	ContainerID string // of its first container
	PodIP       string // "" on the host's network
	Message     string
	// Ready says that its containers run, or have ended as they may, and that
	// those are well that are probed.
	Ready    bool
	Restarts uint64 // of all of its containers
}

func (PodStatus) Kind() Kind { return PodStatusKind }
func (s PodStatus) Key() Key { return Named(s.Name) }

// Fields implements Resource.
func (s PodStatus) Fields() []Field {
	return []Field{
		{"name", s.Name}, {"phase", s.Phase}, {"container_id", s.ContainerID}, {"pod_ip", s.PodIP}, {"message", s.Message},
		{"ready", flag(s.Ready)}, {"restarts", count(s.Restarts)},
	}
}

// ControllerStatus is how a controller of the loop has fared.
type ControllerStatus struct {
	Name      string
	Runs      uint64
	Failures  uint64 // in all
	LastError string // "" after a run without an error
	// NextRunNS is when it runs next if nothing moves, in nanoseconds since
	// boot; negative when only a change makes it run.
	NextRunNS int64
}

func (ControllerStatus) Kind() Kind { return ControllerStatusKind }
func (s ControllerStatus) Key() Key { return Named(s.Name) }

// Fields implements Resource.
func (s ControllerStatus) Fields() []Field {
	next := "on change"
	if s.NextRunNS >= 0 {
		next = seconds(s.NextRunNS)
	}
	return []Field{
		{"name", s.Name}, {"runs", count(s.Runs)}, {"failures", count(s.Failures)}, {"last_error", s.LastError}, {"next_run", next},
	}
}
