package signature_test

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"machined/hal/signature"
)

// Members of volume managers whose tools ask for real disks are written here
// by hand, and blkid judges both.

const memberUUID = "\x12\x34\x56\x78\x9a\xbc\x4d\xef\x81\x23\x45\x67\x89\xab\xcd\xef"

// md is a superblock of Linux software RAID, format 1.
func md(off int64) []byte {
	b := make([]byte, 4*kib)
	binary.LittleEndian.PutUint32(b, 0xa92b4efc)
	binary.LittleEndian.PutUint32(b[4:], 1)
	copy(b[16:], memberUUID)
	copy(b[32:], "host:mirror")
	binary.LittleEndian.PutUint64(b[144:], uint64(off)/512)
	sum := uint64(0) // of words, folded; md_p.h
	for i := 0; i < 256; i += 4 {
		sum += uint64(binary.LittleEndian.Uint32(b[i:]))
	}
	binary.LittleEndian.PutUint32(b[216:], uint32(sum)+uint32(sum>>32))
	return b
}

// physicalVolume is the label of LVM2, for the sector of that number.
func physicalVolume(sector uint64) []byte {
	b := make([]byte, 512)
	copy(b, "LABELONE")
	binary.LittleEndian.PutUint64(b[8:], sector)
	binary.LittleEndian.PutUint32(b[20:], 32)
	copy(b[24:], "LVM2 001abcdefGHIJklmnOPQRstuvWXYZ012345")
	binary.LittleEndian.PutUint32(b[16:], ^crc32.Update(^uint32(0xf597a6cf), crc32.IEEETable, b[20:]))
	return b
}

func magicAt(size, at int, magic, uuid string, uuidAt int) []byte {
	b := make([]byte, size)
	copy(b[at:], magic)
	copy(b[uuidAt:], uuid)
	return b
}

func TestMembersByTools(t *testing.T) {
	const size = 16 * mib
	last := int64(size/512-16) &^ 7 * 512
	for _, c := range []struct {
		name, fs string
		off      int64
		data     []byte
	}{
		{"RAID 1.0", "linux_raid_member", last, md(last)},
		{"RAID 1.1", "linux_raid_member", 0, md(0)},
		{"RAID 1.2", "linux_raid_member", 4 * kib, md(4 * kib)},
		{"LVM in sector 1", "LVM2_member", 512, physicalVolume(1)},
		{"LVM in sector 3", "LVM2_member", 3 * 512, physicalVolume(3)},
		{"Intel RAID", "isw_raid_member", size - 1024, []byte("Intel Raid ISM Cfg Sig. 1.1.00")},
		{"JFS", "", 32 * kib, []byte("JFS1 without the rest")},
	} {
		t.Run(c.name, func(t *testing.T) {
			image := newImage(t, size)
			write(t, image, c.off, c.data)
			if c.fs == "linux_raid_member" || c.fs == "LVM2_member" {
				compare(t, image, c.fs)
			}
			f, _ := open(t, image)
			if got, err := signature.Read(f, size); err != nil || got.Blank || c.fs != "" && got.FS != c.fs {
				t.Errorf("Read = %+v, %v; want %s, and not blank", got, err, c.fs)
			}
		})
	}
}

// TestMembers covers what blkid of this age does not know, or takes for
// something only with more around it.
func TestMembers(t *testing.T) {
	const bcache = "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"
	const bcachefs = "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"
	const text = "12345678-9abc-4def-8123-456789abcdef"
	zfs := make([]byte, 256*kib)
	zfs[16*kib] = 1
	binary.BigEndian.PutUint64(zfs[200*kib:], 0x00bab10c)
	for _, c := range []struct {
		off  int64
		data []byte
		want signature.Content
	}{
		{4 * kib, magicAt(256, 24, bcache, memberUUID, 40), signature.Content{FS: "bcache", UUID: text}},
		{4 * kib, magicAt(256, 24, bcachefs, memberUUID, 56), signature.Content{FS: "bcachefs", UUID: text}},
		{0, zfs, signature.Content{FS: "zfs_member"}},
		{16*mib - 64*kib, []byte("\xfc\x4e\x2b\xa9 format 0.90"), signature.Content{FS: "linux_raid_member"}},
		{3, []byte("-FVE-FS-"), signature.Content{FS: "BitLocker"}},
		{1024, magicAt(128, 0, "\xe2\xe1\xf5\xe0", memberUUID, 48), signature.Content{FS: "erofs", UUID: text}},
		{16 * kib, []byte("nobody knows this"), signature.Content{}},
	} {
		disk := newRAM(16 * mib)
		copy(disk.b[c.off:], c.data)
		if got, err := signature.Read(disk, disk.size()); got != c.want || err != nil {
			t.Errorf("Read with %.20q at %d = %+v, %v; want %+v", c.data, c.off, got, err, c.want)
		}
	}
}
