package signature

import (
	"encoding/binary"
	"math/bits"
)

// fat is what a FAT's boot sector says of its layout, in bytes (Microsoft's
// FAT specification, section 3).
type fat struct {
	cluster   int64
	root      int64 // offset of the root directory
	rootSize  int64
	extended  int // place of serial number and label in the boot sector
	dataStart int64
}

// parseFAT reads a boot sector. The signature 0x55AA alone is no sign of a
// FAT: an MBR has it too.
func parseFAT(b []byte) (fat, bool) {
	le := binary.LittleEndian
	sector, cluster := int64(le.Uint16(b[11:])), int64(b[13])
	reserved, fats, entries := int64(le.Uint16(b[14:])), int64(b[16]), int64(le.Uint16(b[17:]))
	media := b[21]
	jump := b[0] == 0xeb || b[0] == 0xe9
	if b[510] != 0x55 || b[511] != 0xaa || !jump || sector < 512 || sector > 4096 || !powerOfTwo(sector) || !powerOfTwo(cluster) ||
		reserved == 0 || fats == 0 || media != 0xf0 && media < 0xf8 {
		return fat{}, false
	}
	length := int64(le.Uint16(b[22:]))
	f := fat{cluster: sector * cluster, extended: 0x26}
	if length == 0 {
		length, f.extended = int64(le.Uint32(b[36:])), 0x42
	}
	sectors := int64(le.Uint16(b[19:]))
	if sectors == 0 {
		sectors = int64(le.Uint32(b[32:]))
	}
	f.rootSize = (entries*32 + sector - 1) / sector * sector
	f.root = (reserved + fats*length) * sector
	f.dataStart = f.root + f.rootSize
	if length == 0 || f.dataStart >= sectors*sector {
		return fat{}, false
	}
	if f.extended == 0x42 {
		f.root, f.rootSize = f.dataStart+(int64(le.Uint32(b[44:]))-2)*f.cluster, f.cluster
	}
	return f, true
}

func powerOfTwo(n int64) bool { return n > 0 && bits.OnesCount64(uint64(n)) == 1 }

// maxDirectory bounds how much of a root directory is read for its label,
// which mkfs and every system put at its start.
const maxDirectory = 16 << 10

func (d *device) fat() (Content, bool) {
	b := d.at(0, 512)
	if b == nil {
		return Content{}, false
	}
	f, ok := parseFAT(b)
	if !ok {
		return Content{}, false
	}
	c := Content{FS: "vfat"}
	if ext := b[f.extended:]; ext[0] == 0x28 || ext[0] == 0x29 { // says that the fields are there
		c.UUID = serialText(ext[1:5])
		if text := string(ext[5:16]); ext[0] == 0x29 && text != "NO NAME    " {
			c.Label = labelText(ext[5:16])
		}
	}
	if label, ok := fatLabel(d.at(f.root, int(min(f.rootSize, maxDirectory)))); ok {
		c.Label = label
	}
	return c, true
}

// fatLabel finds the volume's entry in a root directory, which counts for more
// than the boot sector.
func fatLabel(dir []byte) (string, bool) {
	const volumeID, longName, kinds = 0x08, 0x0f, 0x3f
	for ; len(dir) >= 32 && dir[0] != 0; dir = dir[32:] {
		attributes := dir[11] & kinds
		if dir[0] == 0xe5 || attributes == longName || attributes&0x18 != volumeID {
			continue
		}
		return labelText(dir[:11]), true
	}
	return "", false
}

func (d *device) exfat() (Content, bool) {
	b := d.at(0, 512)
	if b == nil || !d.has(3, "EXFAT   ") {
		return Content{}, false
	}
	le := binary.LittleEndian
	c := Content{FS: "exfat", UUID: serialText(b[100:104])}
	sectorBits, clusterBits := int(b[108]), int(b[109])
	if sectorBits < 9 || sectorBits > 12 || clusterBits > 25-sectorBits {
		return c, true
	}
	root := int64(le.Uint32(b[88:]))<<sectorBits + (int64(le.Uint32(b[96:]))-2)<<(sectorBits+clusterBits)
	dir := d.at(root, int(min(maxDirectory, int64(1)<<(sectorBits+clusterBits))))
	for ; len(dir) >= 32 && dir[0] != 0; dir = dir[32:] {
		if dir[0] == 0x83 { // exFAT specification, 7.3
			c.Label = utf16Text(dir[2 : 2+2*min(int(dir[1]), 11)])
			break
		}
	}
	return c, true
}

func (d *device) ntfs() (Content, bool) {
	b := d.at(0, 512)
	if b == nil || !d.has(3, "NTFS    ") {
		return Content{}, false
	}
	serial := binary.LittleEndian.Uint64(b[72:])
	var be [8]byte
	binary.BigEndian.PutUint64(be[:], serial)
	return Content{FS: "ntfs", UUID: hexText(be[:], upperDigits)}, true
}
