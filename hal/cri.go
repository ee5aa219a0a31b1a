package hal

// RuntimeState is what a container runtime says of itself.
type RuntimeState struct {
	Name, Version string
	// Ready says that containers can be run, NetworkReady that those with a
	// network of their own can. Message tells why not.
	Ready, NetworkReady bool
	Message             string
}

// SandboxSpec is what a pod is before its containers.
type SandboxSpec struct {
	Name string
	// Hash tells two specs of one name apart; it comes back with the sandbox.
	Hash        string
	HostNetwork bool
	// Ports are forwarded from the node to the pod. They need a network of its
	// own.
	Ports []PortMapping
	// LogDir is the directory of the containers' LogPath.
	LogDir string
}

// PortMapping forwards a port of the node.
type PortMapping struct {
	HostPort, ContainerPort uint16
	UDP                     bool
}

// Sandbox is a pod as the runtime has it.
type Sandbox struct {
	ID string
	// Name and Hash are those of its spec; Name is "" for one that was not made
	// by this program.
	Name, Hash string
	Ready      bool
	// Address is the pod's own IP address, "" on the host's network.
	Address string
}

// ContainerSpec is a container of a pod.
type ContainerSpec struct {
	Name string
	// Attempt counts the containers of that name in the pod, from 0.
	Attempt    uint32
	Image      string // id, from Image or PullImage
	Command    []string
	Args       []string
	Env        []EnvVar
	WorkingDir string
	Mounts     []BindMount
	// MemoryMax is in bytes, 0 for no limit.
	MemoryMax uint64
	// CPUQuota is the time in microseconds that it may run in each CPUPeriod;
	// 0 for no limit. CPUWeight is as in cgroup v2, 0 for the default.
	CPUQuota, CPUPeriod int64
	CPUWeight           uint64
	PIDsMax             int64
	UID, GID            int64 // negative for those of the image
	Capabilities        []string
	Privileged          bool
	ReadOnlyRoot        bool
	LogPath             string // within LogDir of the sandbox
}

// EnvVar is a variable of a process's environment.
type EnvVar struct{ Name, Value string }

// BindMount makes a directory or file of the node appear in a container.
type BindMount struct {
	Source, Target string
	ReadOnly       bool
}

// ContainerState is where a container is in its life.
type ContainerState uint8

const (
	ContainerUnknown ContainerState = iota
	ContainerCreated
	ContainerRunning
	ContainerExited
)

// Container is one as the runtime has it.
type Container struct {
	ID, Sandbox string
	Name        string // "" when it was not made by this program
	Attempt     uint32
	Image       string // id
	State       ContainerState
	// Of one that has exited. Reason is the runtime's word, such as OOMKilled.
	ExitCode int32
	Reason   string
	Message  string
}

// Image is one that the runtime has.
type Image struct {
	ID        string
	Tags      []string
	Digests   []string
	SizeBytes uint64
	// Pinned ones are not to be collected.
	Pinned bool
}

// Auth is how to log in to a registry; empty for anonymous.
type Auth struct{ Username, Password string }

// CRI is a container runtime (Kubernetes Container Runtime Interface, v1). But
// for Changes, calls take as long as the runtime does, and end in an error when
// it does not answer: see Jobs. They may run several at once.
type CRI interface {
	Status() (RuntimeState, error)
	// Pods returns all sandboxes and containers, others' included.
	Pods() ([]Sandbox, []Container, error)
	// RunPod makes and starts a sandbox.
	RunPod(SandboxSpec) (id string, err error)
	// StopPod ends what runs in a sandbox, at once, and its network. One that
	// is not there is no error.
	StopPod(id string) error
	// RemovePod removes a sandbox with its containers. One that is not there is
	// no error.
	RemovePod(id string) error
	// CreateContainer makes a container in the sandbox that came of pod.
	CreateContainer(sandbox string, pod SandboxSpec, c ContainerSpec) (id string, err error)
	StartContainer(id string) error
	// StopContainer asks a container to end, and kills it after grace seconds.
	StopContainer(id string, grace int64) error
	// RemoveContainer removes one, even if it runs. One that is not there is no
	// error.
	RemoveContainer(id string) error
	// Exec runs a command in a container, for timeout seconds at most.
	Exec(id string, command []string, timeout int64) (exitCode int32, err error)
	// Image finds an image by name, digest or id. ErrNotFound.
	Image(ref string) (Image, error)
	Images() ([]Image, error)
	// PullImage gets an image from its registry and returns its id.
	PullImage(ref string, auth Auth) (id string, err error)
	// RemoveImage removes an image with all its names. One that is not there is
	// no error.
	RemoveImage(id string) error
	// Import adds the images of an OCI layout or tarball on the node.
	Import(path string) error
	// Usage returns the size of the file system that images are on, and what
	// of it is free, in bytes.
	Usage() (size, free uint64, err error)
	// Changes counts what the runtime has told of since its start: containers
	// that began or ended. It is cheap and may be called at any time.
	Changes() uint64
}
