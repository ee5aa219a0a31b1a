package supervise

import (
	"reflect"

	"machined/hal"
)

// Restart says when a service that has ended is started again.
type Restart uint8

const (
	Always Restart = iota
	OnFailure
	Never
)

// Gate is a condition of the whole node.
type Gate uint8

const (
	// GateTime is open when the clock can be relied on.
	GateTime Gate = iota
	// GateNetwork is open when there is an address and a default route.
	GateNetwork
)

// String returns the gate's name in the config.
func (g Gate) String() string {
	if g == GateTime {
		return "time"
	}
	return "network"
}

// ProbeKind is how a Probe asks.
type ProbeKind uint8

const (
	ProbeHTTP ProbeKind = iota
	ProbeTCP
	ProbeExec
	ProbeGRPC
)

// Probe asks a service whether it is healthy.
type Probe struct {
	Kind ProbeKind
	// Target is a URL for ProbeHTTP, host:port for ProbeTCP, and host:port or
	// unix:///path for ProbeGRPC.
	Target string
	// Exec is the command of ProbeExec; Exec[0] is an absolute path.
	Exec []string
	// Period and Timeout in nanoseconds. A service that was not healthy yet is
	// asked more often than each Period.
	Period, Timeout int64
	// Threshold failures in a row make a healthy service unhealthy.
	Threshold int
}

// Hook begins a step of a service's life, which the supervisor then polls. A nil
// Job, like a nil Hook, is nothing to do.
type Hook func() hal.Job

// Service is what to run.
type Service struct {
	ID       string
	Command  []string
	Env      []string
	Dir      string
	UID, GID uint32
	// NoNewPrivs, Bounded and Capabilities are those of hal.ProcessSpec.
	NoNewPrivs   bool
	Bounded      bool
	Capabilities uint64
	OOMScoreAdj  int
	// Cgroup is the path of its cgroup, "" for none, and Limits are its limits.
	Cgroup string
	Limits hal.CgroupLimits
	// KillProcessOnly spares what is in its cgroup beside its own process group,
	// such as the shims of a runtime, which outlive it.
	KillProcessOnly bool

	// DependsOn holds services that must be healthy, or have ended well and are
	// not started again; Volumes such as "STATE" must be ready, and Gates open.
	DependsOn []string
	Volumes   []string
	Gates     []Gate
	Restart   Restart
	// StopGrace is the time between TERM and KILL, in nanoseconds.
	StopGrace int64
	// Critical services decide whether an upgrade is kept.
	Critical bool

	// Probe is nil for a service that is healthy while it runs.
	Probe *Probe
	// External, when set, says instead whether the service is healthy, and why
	// not. It is asked at each Step and must not block.
	External func() (healthy bool, why string)
	// RestartUnhealthyAfter is how long, in nanoseconds, the service may run
	// without being healthy before it is started again; 0 means for ever. For one
	// that is never healthy it doubles with each start, to 10 minutes.
	RestartUnhealthyAfter int64

	// Prepare runs before each start; when it fails, it is tried again later.
	// Cleanup runs after each end. Neither can hold up a stop for more than a
	// while.
	Prepare, Cleanup Hook
	// BeforeStop runs before the service is asked to end: while the whole node
	// goes down, or while it alone does. It is waited for as long as
	// BeforeStopWithin nanoseconds, 0 for hookWithin.
	BeforeStop       func(down bool) hal.Job
	BeforeStopWithin int64
}

// same reports whether two services are run in the same way. Functions cannot be
// compared: what matters is whether there is one.
func (s *Service) same(o *Service) bool {
	a, b := *s, *o
	if (a.External == nil) != (b.External == nil) || (a.Prepare == nil) != (b.Prepare == nil) ||
		(a.Cleanup == nil) != (b.Cleanup == nil) || (a.BeforeStop == nil) != (b.BeforeStop == nil) {
		return false
	}
	for _, x := range []*Service{&a, &b} {
		x.External, x.Prepare, x.Cleanup, x.BeforeStop = nil, nil, nil, nil
	}
	return reflect.DeepEqual(a, b)
}
