package fake

import "machined/hal"

// Mounts is a simulated hal.Mounts. Directories are not part of it: any target
// exists.
type Mounts struct {
	Faults
	// Syncs counts the calls of Sync.
	Syncs int

	sources []source
	files   []source // what AttachLoop can attach
	mounts  []mount
	busy    []string
	loops   int
}

// source is a block device, or a file, and the file system in it.
type source struct {
	path, fsType string
	readOnly     bool
	held         bool // a loop device whose first user has not let go
	loop         bool
}

type mount struct {
	hal.MountInfo
	flags hal.MountFlags
}

// AddDevice makes a block device known that holds a file system of fsType;
// empty for one that holds none.
func (m *Mounts) AddDevice(path, fsType string) {
	m.sources = append(m.sources, source{path: path, fsType: fsType})
}

// setDevice makes a block device known, or says what it holds now.
func (m *Mounts) setDevice(path, fsType string, readOnly bool) {
	s := find(m.sources, path)
	if s == nil {
		m.AddDevice(path, "")
		s = find(m.sources, path)
	}
	s.fsType, s.readOnly = fsType, readOnly
}

// RemoveDevice takes a device away, as when a card is pulled. Its mounts stay,
// as in the kernel.
func (m *Mounts) RemoveDevice(path string) { m.sources = without(m.sources, path) }

// AddFile makes a file known that holds an image of fsType.
func (m *Mounts) AddFile(path, fsType string) {
	m.files = append(m.files, source{path: path, fsType: fsType})
}

// SetBusy makes the mount at target busy: it can be unmounted lazily only.
func (m *Mounts) SetBusy(target string, busy bool) {
	kept := m.busy[:0]
	for _, t := range m.busy {
		if t != target {
			kept = append(kept, t)
		}
	}
	m.busy = kept
	if busy {
		m.busy = append(m.busy, target)
	}
}

// Flags returns the flags of the topmost mount at target.
func (m *Mounts) Flags(target string) hal.MountFlags {
	if i := m.top(target); i >= 0 {
		return m.mounts[i].flags
	}
	return 0
}

// Devices returns the paths of the block devices, loop devices included.
func (m *Mounts) Devices() []string {
	var paths []string
	for _, s := range m.sources {
		paths = append(paths, s.path)
	}
	return paths
}

// Mount implements hal.Mounts.
func (m *Mounts) Mount(c hal.Mount) error {
	if err := m.failing("Mount"); err != nil {
		return err
	}
	switch {
	case c.Flags&hal.Move != 0:
		return m.move(c.Source, c.Target)
	case c.Flags&hal.Remount != 0:
		return m.remount(c)
	}
	readOnly := c.Flags&hal.ReadOnly != 0
	if !virtual(c.FSType) {
		s := find(m.sources, c.Source)
		switch {
		case s == nil:
			return hal.ErrNoDevice
		case s.fsType == "" || s.fsType != c.FSType:
			return hal.ErrInvalid
		case s.readOnly && !readOnly:
			return ErrReadOnly
		}
	}
	m.mounts = append(m.mounts, mount{
		MountInfo: hal.MountInfo{Source: c.Source, Target: c.Target, FSType: c.FSType, ReadOnly: readOnly}, flags: c.Flags,
	})
	return nil
}

// virtual reports whether file systems of that type have no device.
func virtual(fsType string) bool {
	switch fsType {
	case "proc", "sysfs", "devtmpfs", "tmpfs", "ramfs", "devpts", "cgroup2", "efivarfs", "configfs", "debugfs", "mqueue", "bpf":
		return true
	}
	return false
}

func (m *Mounts) remount(c hal.Mount) error {
	i := m.top(c.Target)
	if i < 0 {
		return hal.ErrInvalid
	}
	m.mounts[i].flags = c.Flags &^ hal.Remount
	m.mounts[i].ReadOnly = c.Flags&hal.ReadOnly != 0
	return nil
}

// move takes the mounts below along.
func (m *Mounts) move(from, to string) error {
	if m.top(from) < 0 {
		return hal.ErrInvalid
	}
	for i := range m.mounts {
		if t := m.mounts[i].Target; t == from || below(t, from) {
			m.mounts[i].Target = to + t[len(from):]
		}
	}
	return nil
}

// Unmount implements hal.Mounts.
func (m *Mounts) Unmount(target string, lazy bool) error {
	if err := m.failing("Unmount"); err != nil {
		return err
	}
	i := m.top(target)
	if i < 0 {
		return hal.ErrNotMounted
	}
	covering := false // something is mounted below
	for _, other := range m.mounts {
		covering = covering || below(other.Target, target)
	}
	if !lazy && (covering || m.isBusy(target)) {
		return ErrBusy
	}
	gone := m.mounts[i].Source
	kept := m.mounts[:0]
	for j, other := range m.mounts {
		if j != i && !(lazy && below(other.Target, target)) {
			kept = append(kept, other)
		}
	}
	m.mounts = kept
	m.autoclear(gone)
	return nil
}

func (m *Mounts) isBusy(target string) bool {
	for _, t := range m.busy {
		if t == target {
			return true
		}
	}
	return false
}

// List implements hal.Mounts.
func (m *Mounts) List() ([]hal.MountInfo, error) {
	if err := m.failing("List"); err != nil {
		return nil, err
	}
	infos := make([]hal.MountInfo, 0, len(m.mounts))
	for _, mnt := range m.mounts {
		infos = append(infos, mnt.MountInfo)
	}
	return infos, nil
}

// Sync implements hal.Mounts.
func (m *Mounts) Sync() { m.Syncs++ }

// top returns the index of the mount that is seen at target, or -1.
func (m *Mounts) top(target string) int {
	for i := len(m.mounts) - 1; i >= 0; i-- {
		if m.mounts[i].Target == target {
			return i
		}
	}
	return -1
}

func below(path, dir string) bool {
	return len(path) > len(dir) && path[:len(dir)] == dir && (dir == "/" || path[len(dir)] == '/')
}

var _ hal.Mounts = (*Mounts)(nil)
