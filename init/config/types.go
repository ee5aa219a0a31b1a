package config

import (
	"crypto/ed25519"
	"net/netip"
	"time"
)

// Config is a machine config that passed every check of Parse.
type Config struct {
	Machine Machine
}

// Machine is everything below the top-level `machine` field.
type Machine struct {
	// Hostname is an RFC 1123 name of at most 64 bytes, "" to leave the
	// kernel's.
	Hostname string
	Sysctls  []Sysctl
	// Install is nil when STATE and EPHEMERAL are on the disk that the node was
	// booted from.
	Install  *Install
	Services []Service
	Network  Network
	Time     Time
	Runtime  Runtime
	Pods     []Pod
	Logs     Logs
	Watchdog Watchdog
	Upgrade  Upgrade
	Volumes  Volumes
}

// Sysctl is one kernel parameter; see sysctl.d(5) for the form of the key.
type Sysctl struct {
	Key   string
	Value string
}

// Install names the disk that carries STATE and EPHEMERAL.
type Install struct {
	// Disk is an absolute path below /dev, "" when there is a selector.
	Disk string
	// Selector describes the disk, nil when there is a path.
	Selector *DiskSelector
	// Wipe permits foreign data on the disk to be destroyed.
	Wipe bool
	// System has a node that was booted from another disk write itself to this
	// one, to boot from there. One that was netbooted does so anyway.
	System bool
}

// DiskSelector describes a disk. Empty fields match any.
type DiskSelector struct {
	// Model and Serial may hold * for any text.
	Model, Serial string
	// Bus is ata, mmc, nvme, scsi, usb or virtio.
	Bus string
	// MinSize and MaxSize are 0 for no bound.
	MinSize, MaxSize ByteSize
}

// Service is a process that machined supervises.
type Service struct {
	ID string
	// Command is the argument vector; Command[0] is an absolute path.
	Command []string
	// DependsOn holds the ids of declared services, or ContainerdID.
	DependsOn []string
	Restart   RestartPolicy
	// StopGrace is the time between SIGTERM and SIGKILL.
	StopGrace time.Duration
	// Env is in the order of the file.
	Env []EnvVar
	// User is "name", "name:group" or numeric "uid:gid"; "" is root.
	User string
	// WorkingDir is an absolute path, "" for "/".
	WorkingDir string
	// Probe is nil when the service is healthy as soon as it runs.
	Probe  *Probe
	Limits Limits
	// Gates holds what must be true of the node before the start.
	Gates []Gate
	// Volumes holds the volumes that must be mounted: VolumeState,
	// VolumeEphemeral.
	Volumes []string
	// Capabilities are what the service keeps, nil for all of its user's.
	Capabilities *CapabilitySet
	// NoNewPrivs keeps it from gaining more by what it executes.
	NoNewPrivs bool
	// LogBytes is the size of its ring of output, 0 for the default.
	LogBytes ByteSize
	// Critical services decide whether an upgrade is kept.
	Critical bool
}

// EnvVar is one variable of a service's environment.
type EnvVar struct {
	Name  string
	Value string
}

// Probe asks a service whether it is healthy.
type Probe struct {
	Kind ProbeKind
	// Target is an http URL (ProbeHTTP), host:port (ProbeTCP), or host:port
	// or unix:///path (ProbeGRPC); "" for ProbeExec.
	Target string
	// Exec is the argument vector of ProbeExec.
	Exec    []string
	Period  time.Duration
	Timeout time.Duration
	// Threshold is the number of failures in a row that make a service
	// unhealthy.
	Threshold int
}

// Limits are a service's cgroup v2 settings (kernel, cgroup-v2.rst). A zero
// field leaves the kernel's default.
type Limits struct {
	MemoryMax  ByteSize
	MemoryHigh ByteSize
	// CPUWeight is 1 to 10000; the kernel's default is 100.
	CPUWeight int
	CPUMax    CPUMax
	PIDsMax   int
	// IOWeight is 1 to 10000; the kernel's default is 100.
	IOWeight int
}

// CPUMax lets a cgroup run for Quota in each Period. A zero Quota is no limit.
type CPUMax struct {
	Quota  time.Duration
	Period time.Duration
}

// Network is the node's network.
type Network struct {
	Interfaces  []Interface
	Nameservers []netip.Addr
	Search      []string
}

// Interface is one link and what is configured on it.
type Interface struct {
	Name string
	Up   bool
	// MTU is in bytes, 0 to leave the driver's.
	MTU uint32
	// Addresses keep their host bits.
	Addresses []netip.Prefix
	Routes    []Route
	DHCP4     bool
	DHCP6     bool
	// Wifi is nil on a wired link.
	Wifi *Wifi
}

// Route is a route through a gateway.
type Route struct {
	// To is masked; the default route has length 0 and the gateway's family.
	To     netip.Prefix
	Via    netip.Addr
	Metric uint32
}

// Wifi is a station's network.
type Wifi struct {
	// SSID is 1 to 32 bytes (IEEE 802.11).
	SSID string
	// PSK is a passphrase of 8 to 63 printable ASCII characters or 64 hex
	// digits, "" for an open network. It is a secret: see Redact.
	PSK string
	// Country is an ISO 3166-1 alpha-2 code, "" for the world domain.
	Country string
}

// Time is the node's time synchronisation.
type Time struct {
	// Servers are host or host:port; none means the built-in ones.
	Servers  []string
	Disabled bool
}

// Logs says where logs go beside the rings on the node.
type Logs struct {
	Sinks []LogSink
}

// LogSink is a remote receiver of logs.
type LogSink struct {
	Transport SinkTransport
	// Address is host:port.
	Address string
	Format  SinkFormat
}

// Watchdog is the hardware watchdog.
type Watchdog struct {
	// Timeout is 0 to use the board's default.
	Timeout  time.Duration
	Disabled bool
}

// Upgrade says which upgrades are accepted and when one is kept.
type Upgrade struct {
	// AutoRollback returns to the old slot when a trial boot does not become
	// healthy in time.
	AutoRollback bool
	// Keys are the signers that are trusted. Without any, bundles need no
	// signature.
	Keys []ed25519.PublicKey
	// MinVersion is the oldest version that is accepted; "" for any.
	MinVersion string
	Firmware   Firmware
	Health     Health
}

// Health is what a system on trial has to show, beside an API that answers, the
// critical services, and containerd where one is configured.
type Health struct {
	Services []string // that have to be healthy, beside the critical ones
	Pods     []string // that have to be ready
	Probes   []Probe
	// Hold is how long health must last without a break.
	Hold time.Duration
	// Deadline is counted from the start of the trial boot.
	Deadline time.Duration
}

// Volumes are the sizes of the partitions made at first boot. They are not
// applied to partitions that exist.
type Volumes struct {
	// StateSize is 0 for the default.
	StateSize ByteSize
	// EphemeralSize is 0 for the rest of the disk.
	EphemeralSize ByteSize
}
