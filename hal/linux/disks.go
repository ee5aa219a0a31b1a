package linux

import (
	"errors"
	"fmt"
	"os"
	"strconv"
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
	if err != nil {
		return "", fmt.Errorf("add partition %d to %s: %w", number, disk, err)
	}
	defer f.Close()
	part := unix.BlkpgPartition{Start: start, Length: size, Pno: int32(number)}
	arg := unix.BlkpgIoctlArg{Op: unix.BLKPG_ADD_PARTITION, Datalen: int32(unsafe.Sizeof(part)), Data: (*byte)(unsafe.Pointer(&part))}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKPG, uintptr(unsafe.Pointer(&arg)))
	if errno != 0 && errno != unix.EBUSY { // busy: the kernel has it already
		return "", fmt.Errorf("tell the kernel of partition %d of %s: %w", number, disk, errno)
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
	// Without free space left in the last group the kernel answers EINVAL to a
	// size that is no change, and EPERM without CAP_SYS_RESOURCE.
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), ext4ResizeFS, uintptr(unsafe.Pointer(&blocks)))
	if errno != 0 && !errors.Is(errno, unix.EBUSY) {
		return fmt.Errorf("grow the ext4 at %s to %d blocks: %w", target, blocks, errno)
	}
	return nil
}

var _ hal.Disks = Disks{}
