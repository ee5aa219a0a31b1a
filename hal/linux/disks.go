package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"machined/hal"
)

// Disks is the real hal.Disks.
type Disks struct{}

// deviceWait bounds the wait for devtmpfs to show a new partition.
const deviceWait = 5 * time.Second

// AddPartition implements hal.Disks.
func (Disks) AddPartition(disk string, number int, start, size int64) (string, error) {
	device := PartitionPath(disk, number)
	f, err := os.Open(disk)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) {
		err = hal.ErrNoDevice
	}
	if err != nil {
		return "", fmt.Errorf("add partition %d to %s: %w", number, disk, err)
	}
	defer f.Close()
	err = blkpg(f, unix.BLKPG_ADD_PARTITION, unix.BlkpgPartition{Start: start, Length: size, Pno: int32(number)})
	if errors.Is(err, unix.EBUSY) && isPartition(device, start, size) {
		err = nil // the kernel has it already
	}
	if err != nil {
		return "", fmt.Errorf("tell the kernel of partition %d of %s: %w", number, disk, err)
	}
	for waited := time.Duration(0); ; waited += 10 * time.Millisecond {
		if _, err = os.Stat(device); err == nil || waited > deviceWait {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		return "", fmt.Errorf("wait for %s: %w", device, err)
	}
	return device, nil
}

// RemovePartition implements hal.Disks.
func (Disks) RemovePartition(disk string, number int) error {
	f, err := os.Open(disk)
	if err == nil {
		defer f.Close()
		err = blkpg(f, unix.BLKPG_DEL_PARTITION, unix.BlkpgPartition{Pno: int32(number)})
	}
	if err != nil && !errors.Is(err, unix.ENXIO) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("have the kernel forget partition %d of %s: %w", number, disk, err)
	}
	return nil
}

// isPartition reports whether the kernel has a partition of that name in that
// place, start and size in bytes.
func isPartition(device string, start, size int64) bool {
	for file, want := range map[string]int64{"start": start, "size": size} {
		b, err := os.ReadFile(filepath.Join("/sys/class/block", filepath.Base(device), file))
		if err != nil || strings.TrimSpace(string(b)) != strconv.FormatInt(want/512, 10) { // sysfs counts sectors
			return false
		}
	}
	return true
}

// blkpg changes the kernel's own list of the partitions of a disk.
func blkpg(disk *os.File, op int32, part unix.BlkpgPartition) error {
	arg := unix.BlkpgIoctlArg{Op: op, Datalen: int32(unsafe.Sizeof(part)), Data: (*byte)(unsafe.Pointer(&part))}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, disk.Fd(), unix.BLKPG, uintptr(unsafe.Pointer(&arg)))
	if errno != 0 {
		return errno
	}
	return nil
}

// PartitionPath returns the path of a partition's device: /dev/sda1, but
// /dev/mmcblk0p1 where the disk's name ends in a digit.
func PartitionPath(disk string, number int) string {
	if last := disk[len(disk)-1]; last >= '0' && last <= '9' {
		disk += "p"
	}
	return disk + strconv.Itoa(number)
}

// ext4ResizeFS is EXT4_IOC_RESIZE_FS of the kernel's include/uapi/linux/ext4.h:
// _IOW('f', 16, __u64), the new size in blocks of the file system.
const ext4ResizeFS = 1<<30 | 8<<16 | 'f'<<8 | 16

// GrowExt4 implements hal.Disks.
func (Disks) GrowExt4(target string, size int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(target, &st); err != nil {
		return fmt.Errorf("grow the file system at %s: %w", target, err)
	}
	dir, err := os.Open(target)
	if err != nil {
		return fmt.Errorf("grow the file system at %s: %w", target, err)
	}
	defer dir.Close()
	blocks := uint64(size / st.Bsize)
	if st.Blocks >= blocks {
		return nil // the kernel would answer EINVAL: it does not shrink
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), ext4ResizeFS, uintptr(unsafe.Pointer(&blocks)))
	if errno != 0 && !errors.Is(errno, unix.EBUSY) {
		return fmt.Errorf("grow the ext4 at %s to %d blocks: %w", target, blocks, errno)
	}
	return nil
}

var _ hal.Disks = Disks{}
