package hal

// MountFlags are the flags of mount(2) that machined uses.
type MountFlags uint32

const (
	ReadOnly MountFlags = 1 << iota
	NoSuid
	NoDev
	NoExec
	// Move moves the mount at Source to Target; FSType is not used.
	Move
	// Remount changes the flags of the mount at Target.
	Remount
)

// Mount is one call of mount(2).
type Mount struct {
	Source string
	Target string // absolute path of an existing directory
	FSType string
	Flags  MountFlags
	Data   string // options of the file system, comma separated
}

// MountInfo is one line of /proc/self/mountinfo.
type MountInfo struct {
	Source   string
	Target   string
	FSType   string
	ReadOnly bool // the mount, or the file system as a whole
}

// Mounts mounts file systems.
type Mounts interface {
	// Mount attaches a file system. ErrNoDevice when the source is not there,
	// ErrInvalid when it holds no such file system or the kernel knows none.
	Mount(m Mount) error
	// Unmount detaches target; lazily when lazy is set (MNT_DETACH), which
	// succeeds while files are open. ErrNotMounted when nothing is there.
	Unmount(target string, lazy bool) error
	// List returns the mounts in the order in which they were made.
	List() ([]MountInfo, error)
	// AttachLoop makes path available as a read-only block device that goes
	// away with its last user, and returns the device's path. The caller is
	// the first user: it calls release once the device is mounted.
	AttachLoop(path string) (device string, release func(), err error)
	// Sync flushes every file system.
	Sync()
}
