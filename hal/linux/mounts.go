package linux

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"machined/hal"
)

// Mounts is the real hal.Mounts.
type Mounts struct{}

// Mount implements hal.Mounts.
func (Mounts) Mount(m hal.Mount) error {
	err := unix.Mount(m.Source, m.Target, m.FSType, mountFlags(m.Flags), m.Data)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENODEV):
		// Not about the source: the kernel was built without the file system.
		err = fmt.Errorf("%w (the kernel knows no %s)", hal.ErrInvalid, m.FSType)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENOTBLK):
		err = fmt.Errorf("%w (%w)", hal.ErrNoDevice, err)
	case errors.Is(err, unix.EINVAL):
		err = fmt.Errorf("%w (not a readable %s)", hal.ErrInvalid, m.FSType)
	}
	return fmt.Errorf("mount %s (%s) at %s: %w", m.Source, m.FSType, m.Target, err)
}

func mountFlags(f hal.MountFlags) uintptr {
	var flags uintptr
	for _, p := range []struct {
		ours   hal.MountFlags
		theirs uintptr
	}{
		{hal.ReadOnly, unix.MS_RDONLY}, {hal.NoSuid, unix.MS_NOSUID}, {hal.NoDev, unix.MS_NODEV},
		{hal.NoExec, unix.MS_NOEXEC}, {hal.Move, unix.MS_MOVE}, {hal.Remount, unix.MS_REMOUNT},
	} {
		if f&p.ours != 0 {
			flags |= p.theirs
		}
	}
	return flags
}

// Unmount implements hal.Mounts.
func (Mounts) Unmount(target string, lazy bool) error {
	flags := unix.UMOUNT_NOFOLLOW
	if lazy {
		flags |= unix.MNT_DETACH
	}
	err := unix.Unmount(target, flags)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		err = hal.ErrNotMounted
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", target, err)
	}
	return nil
}

// List implements hal.Mounts.
func (Mounts) List() ([]hal.MountInfo, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	defer f.Close()
	var mounts []hal.MountInfo
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if m, ok := parseMountInfo(lines.Text()); ok {
			mounts = append(mounts, m)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return mounts, nil
}

// parseMountInfo reads one line of mountinfo, proc_pid_mountinfo(5):
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
func parseMountInfo(line string) (hal.MountInfo, bool) {
	left, right, ok := strings.Cut(line, " - ")
	// Not Fields: the source may be empty.
	l, r := strings.Split(left, " "), strings.Split(right, " ")
	if !ok || len(l) < 6 || len(r) < 3 {
		return hal.MountInfo{}, false
	}
	m := hal.MountInfo{Target: unescape(l[4]), FSType: r[0], Source: unescape(r[1])}
	// The mount may be read-only, or the file system below: a squashfs always
	// is, and an ext4 after an error.
	for option := range strings.SplitSeq(l[5]+","+r[2], ",") {
		m.ReadOnly = m.ReadOnly || option == "ro"
	}
	return m, true
}

// unescape undoes the kernel's \040 for a space and its like.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// AttachLoop implements hal.Mounts.
func (Mounts) AttachLoop(path string) (string, func(), error) {
	backing, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("open %s for a loop device: %w", path, err)
	}
	defer unix.Close(backing)
	control, err := unix.Open("/dev/loop-control", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("open /dev/loop-control: %w", err)
	}
	defer unix.Close(control)
	// Between "get free" and "configure" somebody else may take the device.
	for range 8 {
		n, err := unix.IoctlRetInt(control, unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return "", nil, fmt.Errorf("find a free loop device for %s: %w", path, err)
		}
		device := "/dev/loop" + strconv.Itoa(n)
		fd, err := configureLoop(device, backing)
		if err == nil {
			return device, func() { unix.Close(fd) }, nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return "", nil, fmt.Errorf("attach %s to %s: %w", path, device, err)
		}
	}
	return "", nil, fmt.Errorf("attach %s to a loop device: every free one was taken meanwhile: %w", path, unix.EBUSY)
}

func configureLoop(device string, backing int) (int, error) {
	fd, err := unix.Open(device, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	config := unix.LoopConfig{Fd: uint32(backing)}
	config.Info.Flags = unix.LO_FLAGS_READ_ONLY | unix.LO_FLAGS_AUTOCLEAR
	if err := unix.IoctlLoopConfigure(fd, &config); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Sync implements hal.Mounts.
func (Mounts) Sync() { unix.Sync() }

var _ hal.Mounts = Mounts{}
