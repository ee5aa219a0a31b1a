package hal

// CgroupLimits are settings of a cgroup v2 (kernel, cgroup-v2.rst). A zero
// field leaves what the kernel has.
type CgroupLimits struct {
	// Memory in bytes. Max is a bound, from High on the kernel slows the cgroup
	// down, and what is below Min and Low is kept from it as long as there is
	// other memory to take; Min is a promise and Low an effort.
	MemoryMax, MemoryHigh, MemoryMin, MemoryLow int64
	// OOMGroup makes the kernel kill all of the cgroup where it would kill one
	// process of it.
	OOMGroup bool
	// CPUWeight and IOWeight are 1 to 10000; 100 is the kernel's default.
	CPUWeight, IOWeight int
	// CPUQuota in each CPUPeriod, both in microseconds.
	CPUQuota, CPUPeriod int64
	PIDsMax             int
}

// CgroupStatus is a cgroup as the kernel accounts for it.
type CgroupStatus struct {
	// Populated reports whether a process is in it, or below.
	Populated bool
	// Memory in bytes, and how many processes were killed for want of it; both
	// are 0 when the kernel does not account for memory.
	Memory   int64
	OOMKills uint64
}

// Cgroups makes cgroups v2 and reads their accounts. Paths begin with "/",
// which is the root of the hierarchy.
type Cgroups interface {
	// Create makes the cgroup, those above it included, and sets its limits; one
	// that is there gets the limits. It returns the kernel's names of the limits
	// that this kernel has not, such as "memory.max", with a space between, and
	// sets the others. The cgroups above must have no processes of their own.
	Create(path string, limits CgroupLimits) (missing string, err error)
	// Enter moves a process into the cgroup, 0 the caller's. ErrNotFound when
	// one of them is not there.
	Enter(path string, pid int) error
	// Kill kills all processes in it and below. ErrNotFound when it is not there.
	Kill(path string) error
	// Status returns its accounts. ErrNotFound when it is not there.
	Status(path string) (CgroupStatus, error)
	// Remove removes it and what is below; one that is not there is no error. It
	// fails while there are processes.
	Remove(path string) error
}
