package hal

// BlockDevice is a disk or one of its partitions, and what is written on it.
// Loop devices, RAM disks and drives without a medium are left out.
type BlockDevice struct {
	Name   string // sda, mmcblk0p2
	Path   string // /dev/sda
	Disk   string // Name of the whole disk; a disk's own for itself
	Number int    // of the partition, from 1; 0 for a whole disk
	Start  int64  // bytes from the start of the disk
	Size   int64  // bytes

	// Of whole disks.
	Model, Serial string
	Bus           string // ata, mmc, nvme, scsi, usb, virtio, or "" when unknown
	Rotational    bool
	Removable     bool
	Table         Table // partition table that is written on it
	// Unused is the size in bytes of the largest space that no partition
	// claims, in whole MiB; the whole disk when it has no table.
	Unused int64

	// Of partitions.
	Label string // name in a GPT; an MBR has none
	Type  string // GUID in a GPT, lower case; two hex digits in an MBR

	// Of both.
	ReadOnly bool
	FS       string // ext4, vfat, squashfs, swap, crypto_LUKS, xfs, btrfs, …; "" for none that is known
	FSLabel  string
	FSUUID   string
	// Blank says that nothing is written where file systems and tables have
	// their signatures: a device that may be used without asking.
	Blank bool
	// Trouble is why the device could not be read, "" when it could.
	Trouble string
}

// Table is a kind of partition table.
type Table uint8

const (
	NoTable Table = iota
	GPT           // UEFI specification, chapter 5
	MBR
)

// BlockDevices knows the block devices of the machine. A driver looks for
// itself when the kernel tells of a change; a caller never waits for a disk.
type BlockDevices interface {
	// Devices returns what was found last, by Name with partitions behind
	// their disk. The caller does not change the slice.
	Devices() []BlockDevice
	// Scans returns the number of scans so far that found something else than
	// the one before. 0 says that the first has not ended yet.
	Scans() uint64
	// Rescan asks for another look soon, as after a partition was made.
	Rescan()
}

// MinVolume is the least size in bytes that a volume may have.
const MinVolume = 16 << 20

// NewVolume is a partition to be made with an empty ext4 in it.
type NewVolume struct {
	// Label of the partition (GPT) and of the file system: 1 to 16 letters,
	// digits, - or _. An MBR has places for STATE (partition 2) and EPHEMERAL
	// (partition 3) alone.
	Label string
	// Size in bytes, rounded up to 1 MiB; 0, for the last volume only, takes
	// the rest of the largest free space.
	Size int64
}

// Provision says what to make on a disk.
type Provision struct {
	Disk string // path of the whole disk, such as /dev/sda
	// Wipe writes a new, empty GPT first: everything on the disk is lost, also
	// what an earlier call made. Whoever asks again after a failure asks for
	// it only while none of the volumes is there.
	Wipe    bool
	Volumes []NewVolume // in their order on the disk
}

// Provisioner makes volumes. It is slow: see Jobs.
type Provisioner interface {
	// Provision makes the volumes that the disk does not have yet in its free
	// space, and tells the kernel. Cut at any write, and called again, it
	// finishes what it began; a volume that exists is left alone. A partition
	// in a volume's place (name and type in a GPT, number and type in an MBR)
	// that is blank gets its file system, and a blank disk a GPT. Nothing is
	// written unless there is room for all volumes.
	//
	// ErrNoDevice when the disk is not there, ErrNoSpace when it is too small;
	// ErrInvalid when its table is damaged or, without Wipe, there is none,
	// when something else is in a volume's place, or two partitions could be
	// the same volume. A disk to be wiped must not be in use.
	Provision(p Provision) error
	// Erase makes a volume of the disk blank, so that Provision makes it anew. A
	// disk without it is no error. It must not be mounted. There is no name for
	// anything else on a disk: the boot partition is out of reach.
	//
	// It may take many minutes. moved is called each time that a piece is on the
	// disk, 4 MiB at most of what is overwritten: that tells a slow disk from one
	// that is dead. Called again after a cut, Erase begins anew.
	Erase(disk string, which DataVolume, moved func()) error
	// Install makes the boot partition of a disk that has none: a blank one, or
	// with Wipe any that is not in use. What is in the partition is compared with
	// what was read, from the disk, and completed, before the table names it: an
	// error or a cut leaves a disk that nothing boots from, and that a further call
	// begins anew.
	//
	// ErrNoDevice, ErrNoSpace, ErrInvalid as for Provision; ErrReadBack.
	Install(i Install) error
}

// Install says what to make the boot partition of a disk from.
type Install struct {
	Disk string // path of the whole disk
	Wipe bool   // everything on the disk is lost
	// Table is GPT for boards with UEFI, MBR for others.
	Table Table
	// Size is the partition's, in bytes, whole MiB.
	Size int64
	// Boot has the partition's content, Size bytes.
	Boot Reader
	// Complete is called with the partition's device, which the kernel knows
	// already, and may mount it for as long as it runs. Its error ends the
	// installation.
	Complete func(device string) error
}

// Reader reads as io.Reader does.
type Reader interface {
	Read(b []byte) (n int, err error)
}

// DataVolume is one of the volumes that hold what a node has gathered.
type DataVolume uint8

const (
	EphemeralVolume DataVolume = iota + 1
	StateVolume
)

// String returns the volume's label, "" for no volume.
func (v DataVolume) String() string {
	switch v {
	case EphemeralVolume:
		return "EPHEMERAL"
	case StateVolume:
		return "STATE"
	}
	return ""
}
