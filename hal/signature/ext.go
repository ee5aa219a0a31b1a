package signature

import (
	"encoding/binary"
	"hash/crc32"
)

// Places in the superblock, which is at 1024 (fs/ext4/ext4.h).
const (
	extSuper     = 1024
	extSuperSize = 1024
	extMagic     = 0x38
	extCompat    = 0x5c
	extIncompat  = 0x60
	extROCompat  = 0x64
	extUUID      = 0x68
	extLabel     = 0x78
	extChecksum  = 0x3fc

	extHasJournal   = 0x4   // compatible
	extJournalDev   = 0x8   // incompatible
	extMetadataCsum = 0x400 // compatible for reading
)

// ext tells the three apart as blkid does: ext3 is what has a journal and
// nothing that ext3 does not know; ext2 has neither.
func (d *device) ext() (Content, bool) {
	sb := d.at(extSuper, extSuperSize)
	if sb == nil || sb[extMagic] != 0x53 || sb[extMagic+1] != 0xef {
		return Content{}, false
	}
	le := binary.LittleEndian
	compat, incompat, roCompat := le.Uint32(sb[extCompat:]), le.Uint32(sb[extIncompat:]), le.Uint32(sb[extROCompat:])
	if roCompat&extMetadataCsum != 0 && le.Uint32(sb[extChecksum:]) != ^crc32.Checksum(sb[:extChecksum], crc32.MakeTable(crc32.Castagnoli)) {
		return Content{}, false // torn, or overwritten in part: the kernel mounts it as little
	}
	// filetype and meta_bg; and for ext3 a journal to be replayed.
	const ext2Incompat, ext3Incompat = 0x12, 0x16
	const oldROCompat = 0x7 // sparse_super, large_file, btree_dir
	c := Content{FS: "ext4", Label: labelText(sb[extLabel : extLabel+16]), UUID: uuidText(sb[extUUID : extUUID+16])}
	switch {
	case incompat&extJournalDev != 0:
		c.FS = "jbd"
	case roCompat&^oldROCompat != 0:
	case compat&extHasJournal != 0 && incompat&^ext3Incompat == 0:
		c.FS = "ext3"
	case compat&extHasJournal == 0 && incompat&^ext2Incompat == 0:
		c.FS = "ext2"
	}
	return c, true
}
