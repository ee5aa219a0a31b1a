package fat32

import (
	"encoding/binary"
	"time"
	"unicode/utf16"
)

const (
	direntBytes = 32

	attrVolumeID  = 0x08
	attrDirectory = 0x10
	attrArchive   = 0x20
	attrLongName  = 0x0f

	// longUnits is how many UTF-16 units one long-name entry carries.
	longUnits = 13
	// lastLong marks the entry with the end of the name, which comes first.
	lastLong = 0x40
)

// longEntries is how many long-name entries precede the short one of n.
func (n *node) longEntries() int {
	if !n.needLong {
		return 0
	}
	return (len(utf16.Encode([]rune(n.name))) + longUnits - 1) / longUnits
}

// stamp is a time as FAT stores it.
type stamp struct{ date, time uint16 }

func makeStamp(t time.Time) stamp {
	t = t.UTC()
	if t.Year() < 1980 {
		t = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if t.Year() > 2107 {
		t = time.Date(2107, 12, 31, 23, 59, 58, 0, time.UTC)
	}
	return stamp{
		date: uint16((t.Year()-1980)<<9 | int(t.Month())<<5 | t.Day()),
		time: uint16(t.Hour()<<11 | t.Minute()<<5 | t.Second()/2),
	}
}

// encodeDir gives the contents of the directory n, without padding.
func (n *node) encodeDir(label [11]byte, at stamp) []byte {
	buf := make([]byte, 0, n.dirBytes())
	switch {
	case n.parent != nil:
		buf = appendShort(buf, packShort(".", ""), attrDirectory, n.first, 0, at)
		up := n.parent.first
		if n.parent.parent == nil {
			up = 0 // the root is cluster 0 to its children
		}
		buf = appendShort(buf, packShort("..", ""), attrDirectory, up, 0, at)
	case n.labelled:
		buf = appendShort(buf, label, attrVolumeID, 0, 0, at)
	}
	for _, c := range n.children {
		buf = c.appendLong(buf)
		if c.isDir() {
			buf = appendShort(buf, c.short, attrDirectory, c.first, 0, at)
		} else {
			buf = appendShort(buf, c.short, attrArchive, c.first, uint32(c.file.Size), at)
		}
	}
	return buf
}

func appendShort(buf []byte, name [11]byte, attr byte, first, size uint32, at stamp) []byte {
	le := binary.LittleEndian
	var e [direntBytes]byte
	copy(e[:11], name[:])
	e[11] = attr
	le.PutUint16(e[14:], at.time) // created
	le.PutUint16(e[16:], at.date)
	le.PutUint16(e[18:], at.date) // accessed
	le.PutUint16(e[20:], uint16(first>>16))
	le.PutUint16(e[22:], at.time) // written
	le.PutUint16(e[24:], at.date)
	le.PutUint16(e[26:], uint16(first))
	le.PutUint32(e[28:], size)
	return append(buf, e[:]...)
}

// appendLong writes the entries of the long name, its end first.
func (n *node) appendLong(buf []byte) []byte {
	count := n.longEntries()
	units := utf16.Encode([]rune(n.name))
	sum := n.short.checksum()
	for i := count; i >= 1; i-- {
		var e [direntBytes]byte
		e[0] = byte(i)
		if i == count {
			e[0] |= lastLong
		}
		e[11] = attrLongName
		e[13] = sum
		putLongUnits(&e, units, (i-1)*longUnits)
		buf = append(buf, e[:]...)
	}
	return buf
}

// putLongUnits stores the thirteen units of the name from start on. A name
// that ends before is closed by one 0 and filled up with 0xFFFF.
func putLongUnits(e *[direntBytes]byte, units []uint16, start int) {
	for i := range longUnits {
		at := 1 + 2*i
		switch {
		case i >= 11:
			at = 28 + 2*(i-11)
		case i >= 5:
			at = 14 + 2*(i-5)
		}
		u := uint16(0xffff)
		if start+i < len(units) {
			u = units[start+i]
		} else if start+i == len(units) {
			u = 0
		}
		binary.LittleEndian.PutUint16(e[at:], u)
	}
}
