package hal

// Disks changes what the kernel knows of block devices. Reading and writing
// them is done through their files.
type Disks interface {
	// AddPartition tells the kernel of a partition that was added to the table
	// of disk (a path such as /dev/sda) while others of it are in use. start
	// and size are bytes. It returns the new device's path. A partition that
	// the kernel knows already is no error; another in its place is.
	// ErrNoDevice when the disk is not there.
	AddPartition(disk string, number int, start, size int64) (string, error)
	// RemovePartition has the kernel forget a partition that AddPartition told it of
	// and that is not in use. One that it does not know is no error.
	RemovePartition(disk string, number int) error
	// GrowExt4 grows the ext4 that is mounted at target to size bytes, rounded
	// down to its block size. One that is as large already is left alone.
	GrowExt4(target string, size int64) error
}
