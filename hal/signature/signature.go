// Package signature recognises what is on a block device: partition tables,
// file systems, swap, and members of volume managers. It is what decides
// whether a disk may be used without asking, so it knows more than machined
// can mount.
//
// It reads at most some megabytes of a device, and believes nothing that it
// finds: no allocation and no number of reads is of a size that the device
// names. Names of file systems are those of blkid(8).
package signature

import "machined/hal"

// ErrRead says that the device gave less than its size promises.
const ErrRead hal.Error = "the device ended early"

// Reader is how a device is read, as io.ReaderAt has it.
type Reader interface {
	ReadAt(b []byte, off int64) (int, error)
}

// Content is what a device or a partition holds.
type Content struct {
	FS    string // ext4, vfat, squashfs, swap, crypto_LUKS, …; "" for none that is known
	Label string
	UUID  string // in the form that blkid shows for that file system
	// Blank says that the first and the last MiB hold nothing at all.
	Blank bool
}

// headSize reaches behind the farthest signature at a device's start, that of
// btrfs and of ReiserFS at 64 KiB.
const headSize = 72 << 10

// Read looks at the content of a device or partition of size bytes. A
// partition table is no content: see ReadTable.
func Read(r Reader, size int64) (Content, error) {
	d := device{r: r, size: size}
	d.head = d.read(0, int(min(max(size, 0), headSize)))
	c, found := d.identify()
	if d.err != nil {
		return Content{}, d.err
	}
	if found {
		return c, nil
	}
	blank, err := Blank(r, size)
	return Content{Blank: blank}, err
}

// device is a device in the course of being looked at.
type device struct {
	r    Reader
	size int64
	head []byte
	err  error // the first of a read
}

// read reads n bytes at off. It returns nil where the device has none, and
// after an error.
func (d *device) read(off int64, n int) []byte {
	if d.err != nil || off < 0 || n <= 0 || off > d.size-int64(n) {
		return nil
	}
	b := make([]byte, n)
	if d.err = readFull(d.r, b, off); d.err != nil {
		return nil
	}
	return b
}

// readFull fills b, whatever r says beside all that was asked for.
func readFull(r Reader, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil {
		err = ErrRead
	}
	return err
}

// at returns n bytes at off, from what has been read already if possible.
func (d *device) at(off int64, n int) []byte {
	if off >= 0 && off+int64(n) <= int64(len(d.head)) {
		return d.head[off : off+int64(n)]
	}
	return d.read(off, n)
}

// has reports whether magic is at off.
func (d *device) has(off int64, magic string) bool {
	return string(d.at(off, len(magic))) == magic
}

// identify tries what contains other things first: the file system inside of
// a mirror is to be found by the one who opens the mirror.
func (d *device) identify() (Content, bool) {
	for _, probe := range [...]func(*device) (Content, bool){
		(*device).raid, (*device).oldRAID, (*device).luks, (*device).lvm, (*device).bcache, (*device).zfs,
		(*device).ext, (*device).xfs, (*device).btrfs, (*device).f2fs, (*device).squashfs, (*device).swap,
		(*device).exfat, (*device).ntfs, (*device).fat, (*device).iso, (*device).erofs, (*device).byMagic,
	} {
		if c, ok := probe(d); ok || d.err != nil {
			return c, ok
		}
	}
	return Content{}, false
}

// byMagic knows what is only to be recognised as something.
func (d *device) byMagic() (Content, bool) {
	for _, m := range [...]struct {
		fs    string
		off   int64
		magic string
	}{
		{"BitLocker", 3, "-FVE-FS-"}, {"apfs", 32, "NXSB"}, {"hfsplus", 1024, "H+\x00\x04"}, {"hfsplus", 1024, "HX\x00\x05"},
		{"jfs", 32 << 10, "JFS1"}, {"reiserfs", 64<<10 + 52, "ReIsEr"}, {"reiser4", 64 << 10, "ReIsEr4"},
		{"ufs", 8<<10 + 1372, "\x54\x19\x01\x00"}, {"ufs", 64<<10 + 1372, "\x19\x01\x54\x19"},
		{"udf", 32<<10 + 1, "BEA01"}, {"romfs", 0, "-rom1fs-"}, {"cramfs", 0, "\x45\x3d\xcd\x28"}, {"gfs2", 64 << 10, "\x01\x16\x19\x70"},
		{"ocfs2", 8 << 10, "OCFSV2"}, {"VMFS_volume_member", 1 << 20, "\x0d\xd0\x01\xc0"}, {"ubi", 0, "UBI#"},
		{"isw_raid_member", d.size - 1024, "Intel Raid ISM Cfg Sig. "},
	} {
		if d.has(m.off, m.magic) {
			return Content{FS: m.fs}, true
		}
	}
	return Content{}, false
}
