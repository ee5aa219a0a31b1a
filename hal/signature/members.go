package signature

import (
	"encoding/binary"
	"strconv"
)

// What belongs to something larger, or holds something inside.

// raid finds a superblock of Linux software RAID, format 1
// (include/uapi/linux/raid/md_p.h), at the end (1.0), at the start (1.1) or
// 4 KiB behind it (1.2).
func (d *device) raid() (Content, bool) {
	for _, off := range [...]int64{0, 4096, (d.size/512 - 16) &^ 7 * 512} {
		b := d.at(off, 256)
		le := binary.LittleEndian
		if b != nil && le.Uint32(b) == 0xa92b4efc && le.Uint32(b[4:]) == 1 && le.Uint64(b[144:]) == uint64(off)/512 {
			return Content{FS: "linux_raid_member", Label: labelText(b[32:64]), UUID: uuidText(b[16:32])}, true
		}
	}
	return Content{}, false
}

// oldRAID finds format 0.90, in the last whole 64 KiB.
func (d *device) oldRAID() (Content, bool) {
	b := d.at(d.size&^(64<<10-1)-64<<10, 64)
	if b == nil {
		return Content{}, false
	}
	if binary.LittleEndian.Uint32(b) != 0xa92b4efc && binary.BigEndian.Uint32(b) != 0xa92b4efc {
		return Content{}, false
	}
	return Content{FS: "linux_raid_member"}, true
}

// luks finds both headers' first lines (LUKS1 and LUKS2 On-Disk Format
// Specification). Where LUKS2's first copy was lost, its second still says
// that there is something.
func (d *device) luks() (Content, bool) {
	const magic, second = "LUKS\xba\xbe", "SKUL\xba\xbe"
	if b := d.at(0, 512); b != nil && d.has(0, magic) {
		c := Content{FS: "crypto_LUKS", UUID: labelText(b[168:208])}
		if binary.BigEndian.Uint16(b[6:]) == 2 {
			c.Label = labelText(b[24:72])
		}
		return c, true
	}
	for off := int64(16 << 10); off <= 4<<20; off *= 2 {
		if b := d.at(off, 512); b != nil && d.has(off, second) && int64(binary.BigEndian.Uint64(b[256:])) == off {
			return Content{FS: "crypto_LUKS", Label: labelText(b[24:72]), UUID: labelText(b[168:208])}, true
		}
	}
	return Content{}, false
}

// lvm finds the label of a physical volume in one of the first four sectors.
func (d *device) lvm() (Content, bool) {
	for off := int64(0); off < 4*512; off += 512 {
		b := d.at(off, 512)
		if b == nil || string(b[:8]) != "LABELONE" || string(b[24:32]) != "LVM2 001" {
			continue
		}
		c := Content{FS: "LVM2_member"}
		if at := binary.LittleEndian.Uint32(b[20:]); at >= 32 && at <= 512-32 {
			id := labelText(b[at : at+32])
			for i := 0; len(id) == 32 && i < 32; {
				n := 4
				if i == 0 || i == 26 {
					n = 6
				}
				if i > 0 {
					c.UUID += "-"
				}
				c.UUID += id[i : i+n]
				i += n
			}
		}
		return c, true
	}
	return Content{}, false
}

// bcache finds bcache and bcachefs, which share a place and half a magic.
func (d *device) bcache() (Content, bool) {
	b := d.at(4096, 256)
	if b == nil {
		return Content{}, false
	}
	switch string(b[24:40]) {
	case "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81":
		return Content{FS: "bcache", UUID: uuidText(b[40:56])}, true
	case "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef":
		return Content{FS: "bcachefs", UUID: uuidText(b[56:72]), Label: labelText(b[72:104])}, true
	}
	return Content{}, false
}

// zfs looks for an überblock in the first of a device's four labels. The array
// of them starts 128 KiB into the label, and is only read where the name-value
// list before it says something.
func (d *device) zfs() (Content, bool) {
	list := d.at(16<<10, 8)
	if list == nil || zero(list) {
		return Content{}, false
	}
	array := d.read(128<<10, 128<<10)
	const magic = 0x00bab10c
	for ; len(array) >= 1024; array = array[1024:] {
		if binary.LittleEndian.Uint64(array) == magic || binary.BigEndian.Uint64(array) == magic {
			return Content{FS: "zfs_member"}, true
		}
	}
	return Content{}, false
}

// swap finds the signature at the end of the first page, whatever a page's
// size was where it was made (mkswap(8)), and that of a machine that sleeps.
func (d *device) swap() (Content, bool) {
	b := d.at(1024, 64)
	for page := int64(4 << 10); b != nil && page <= 64<<10; page *= 2 {
		switch string(d.at(page-10, 10)) {
		case "SWAPSPACE2":
			if binary.LittleEndian.Uint32(b) != 1 && binary.BigEndian.Uint32(b) != 1 {
				return Content{}, false
			}
			return Content{FS: "swap", UUID: uuidText(b[12:28]), Label: labelText(b[28:44])}, true
		case "SWAP-SPACE":
			return Content{FS: "swap"}, true
		case "S1SUSPEND\x00", "S2SUSPEND\x00", "ULSUSPEND\x00", "LINHIB0001":
			return Content{FS: "swsuspend", UUID: uuidText(b[12:28]), Label: labelText(b[28:44])}, true
		}
	}
	return Content{}, false
}

// iso finds a primary volume descriptor (ECMA-119, 8.4). The date of the last
// change serves as UUID.
func (d *device) iso() (Content, bool) {
	b := d.at(32<<10, 2048)
	if b == nil || string(b[:6]) != "\x01CD001" {
		return Content{}, false
	}
	c := Content{FS: "iso9660", Label: labelText(b[40:72])}
	for _, at := range [...]int{830, 813} {
		date := b[at : at+16]
		if _, err := strconv.ParseUint(string(date), 10, 64); err != nil || string(date) == "0000000000000000" {
			continue
		}
		s := string(date)
		c.UUID = s[:4] + "-" + s[4:6] + "-" + s[6:8] + "-" + s[8:10] + "-" + s[10:12] + "-" + s[12:14] + "-" + s[14:]
		break
	}
	return c, true
}
