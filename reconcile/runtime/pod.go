package runtime

import (
	"strconv"
	"strings"
	"time"

	"machined/hal"
)

// Restart says when a container that has ended is started again.
type Restart uint8

const (
	Always Restart = iota
	OnFailure
	Never
)

// Pod is a pod that is to run.
type Pod struct {
	Name        string
	HostNetwork bool
	Ports       []hal.PortMapping
	Restart     Restart
	// StopGrace is the time between TERM and KILL.
	StopGrace  time.Duration
	Containers []Container
}

// Container is one of a pod's. Its Image is a reference; Attempt and LogPath
// are not its own.
type Container struct {
	hal.ContainerSpec
	Probe *Probe
}

// ProbeKind is how a Probe asks.
type ProbeKind uint8

const (
	ProbeHTTP ProbeKind = iota
	ProbeTCP
	ProbeExec
	ProbeGRPC
)

// Probe asks a container whether it is well. Until it has been, it is only not
// ready; after that, Threshold failures in a row have it restarted.
type Probe struct {
	Kind ProbeKind
	// Target is a URL, or host:port. A host that is empty is the pod's own.
	Target    string
	Exec      []string
	Period    time.Duration
	Timeout   time.Duration
	Threshold int
}

// Hash tells specs apart. It is kept with the pod and compared after a restart,
// so a change of what goes into it replaces all pods once.
func (p *Pod) Hash() string {
	h := digest(0xcbf29ce484222325)
	h.flag(p.HostNetwork)
	for _, m := range p.Ports {
		h.text("port")
		h.number(uint64(m.HostPort)<<16 | uint64(m.ContainerPort))
		h.flag(m.UDP)
	}
	for i := range p.Containers {
		p.Containers[i].hash(&h)
	}
	return strconv.FormatUint(uint64(h), 16)
}

func (c *Container) hash(h *digest) {
	h.text("container")
	h.text(c.Name)
	h.text(c.Image)
	h.list(c.Command)
	h.list(c.Args)
	for _, e := range c.Env {
		h.text("env")
		h.text(e.Name)
		h.text(e.Value)
	}
	h.text(c.WorkingDir)
	for _, m := range c.Mounts {
		h.text("mount")
		h.text(m.Source)
		h.text(m.Target)
		h.flag(m.ReadOnly)
	}
	h.number(c.MemoryMax)
	h.number(uint64(c.CPUQuota))
	h.number(uint64(c.CPUPeriod))
	h.number(c.CPUWeight)
	h.number(uint64(c.PIDsMax))
	h.number(uint64(c.UID))
	h.number(uint64(c.GID))
	h.list(c.Capabilities)
	h.flag(c.Privileged)
	h.flag(c.ReadOnlyRoot)
}

// digest is FNV-1a of 64 bits (draft-eastlake-fnv). Each part comes with its
// length, so that no two lists of parts read the same.
type digest uint64

func (d *digest) octet(b byte) { *d = (*d ^ digest(b)) * 0x100000001b3 }

func (d *digest) number(n uint64) {
	for range 8 {
		d.octet(byte(n))
		n >>= 8
	}
}

func (d *digest) flag(b bool) {
	if b {
		d.octet(1)
	} else {
		d.octet(0)
	}
}

func (d *digest) text(s string) {
	d.number(uint64(len(s)))
	for i := 0; i < len(s); i++ {
		d.octet(s[i])
	}
}

func (d *digest) list(l []string) {
	d.number(uint64(len(l)))
	for _, s := range l {
		d.text(s)
	}
}

// auth returns how to log in to the registry of an image.
func (s *Settings) auth(image string) hal.Auth {
	host := RegistryOf(image)
	for _, r := range s.Registries {
		if r.Host == host {
			return r.Auth
		}
	}
	return hal.Auth{}
}

// RegistryOf returns the host of an image's registry, by the rule that all
// clients have from Docker: the first part of the name is a host if it looks
// like one.
func RegistryOf(image string) string {
	host, _, ok := strings.Cut(image, "/")
	if !ok || host != "localhost" && !strings.ContainsAny(host, ".:") {
		return "docker.io"
	}
	return host
}

// sandbox is what the pod is to the runtime. p itself is not kept.
func (p *Pod) sandbox(hash, logs string) hal.SandboxSpec {
	return hal.SandboxSpec{Name: p.Name, Hash: hash, HostNetwork: p.HostNetwork, Ports: p.Ports, LogDir: logs}
}
