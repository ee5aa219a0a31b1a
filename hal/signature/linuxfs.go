package signature

import "encoding/binary"

// File systems of Linux other than ext4.

func (d *device) xfs() (Content, bool) {
	b := d.at(0, 512)
	if b == nil || !d.has(0, "XFSB") {
		return Content{}, false
	}
	return Content{FS: "xfs", UUID: uuidText(b[32:48]), Label: labelText(b[108:120])}, true
}

func (d *device) btrfs() (Content, bool) {
	b := d.at(64<<10, 1024)
	if b == nil || string(b[64:72]) != "_BHRfS_M" {
		return Content{}, false
	}
	return Content{FS: "btrfs", UUID: uuidText(b[32:48]), Label: labelText(b[299 : 299+256])}, true
}

func (d *device) f2fs() (Content, bool) {
	b := d.at(1024, 1024)
	if b == nil || binary.LittleEndian.Uint32(b) != 0xf2f52010 {
		return Content{}, false
	}
	return Content{FS: "f2fs", UUID: uuidText(b[108:124]), Label: utf16Text(b[124 : 124+512])}, true
}

func (d *device) erofs() (Content, bool) {
	b := d.at(1024, 128)
	if b == nil || binary.LittleEndian.Uint32(b) != 0xe0f5e1e2 {
		return Content{}, false
	}
	return Content{FS: "erofs", UUID: uuidText(b[48:64]), Label: labelText(b[64:80])}, true
}

func (d *device) squashfs() (Content, bool) {
	b := d.at(0, 96)
	if b == nil {
		return Content{}, false
	}
	switch {
	case d.has(0, "hsqs") && binary.LittleEndian.Uint16(b[28:]) >= 4:
		return Content{FS: "squashfs"}, true
	case d.has(0, "hsqs"), d.has(0, "sqsh"):
		return Content{FS: "squashfs3"}, true
	}
	return Content{}, false
}
