package fat

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"
)

const (
	direntBytes = 32

	// Offsets in a directory entry.
	direntAttr  = 11
	direntHigh  = 20 // of the number of the first cluster
	direntLow   = 26
	direntSize  = 28
	direntOrder = 0  // of a long name's entry
	direntCase  = 12 // Windows NT's and Linux' bits for a short name in lower case
	direntType  = 12 // of a long name's entry
	direntSum   = 13 // of a long name's entry

	attrVolumeID  = 0x08
	attrDirectory = 0x10
	attrLongName  = 0x0f
	attrMask      = 0x3f

	lowerBase = 0x08
	lowerExt  = 0x10

	deleted        = 0xe5
	lastLong       = 0x40 // marks the entry with the end of a name, the first one
	maxLongEntries = 20

	dotName    = ".          "
	dotDotName = "..         "
)

// dirent is one entry of a directory.
type dirent []byte

// free is so for all that were never used, too. The specification has a
// directory end at the first of them, but Linux goes on (fs/fat/dir.c), and so
// what follows must keep its clusters.
func (d dirent) free() bool { return d[0] == deleted || d[0] == 0 }

func (d dirent) long() bool  { return d[direntAttr]&attrMask == attrLongName }
func (d dirent) label() bool { return !d.long() && d[direntAttr]&attrVolumeID != 0 }
func (d dirent) dir() bool   { return d[direntAttr]&attrDirectory != 0 }
func (d dirent) size() int64 { return int64(binary.LittleEndian.Uint32(d[direntSize:])) }

func (d dirent) first() uint32 {
	le := binary.LittleEndian
	return uint32(le.Uint16(d[direntHigh:]))<<16 | uint32(le.Uint16(d[direntLow:]))
}

// order is the number of a long name's entry: 1 for the one at the short name.
func (d dirent) order() int { return int(d[direntOrder] &^ lastLong) }

// plausible reports whether a driver may have written the entry, on a volume
// where valid says which clusters there are.
func (d dirent) plausible(valid func(uint32) bool) bool {
	if d.long() {
		return d.order() >= 1 && d.order() <= maxLongEntries && d[direntType] == 0 && d[direntLow] == 0 && d[direntLow+1] == 0
	}
	for i, b := range d[:direntAttr] {
		if b < ' ' && (i > 0 || b != 5) || b == 0xff || bytes.IndexByte([]byte(`"*./:<>?\|`), b) >= 0 {
			return false
		}
	}
	if d.label() && (d.first() != 0 || d.size() != 0) {
		return false
	}
	return d[0] != ' ' && d[direntAttr]&^attrMask == 0 && (d.first() == 0 || valid(d.first()))
}

// shortName is the name with its dot. What lies beyond ASCII depends on a code
// page that the volume does not name.
func (d dirent) shortName() string {
	name := shortPart(d[:8], d[direntCase]&lowerBase != 0)
	if ext := shortPart(d[8:direntAttr], d[direntCase]&lowerExt != 0); ext != "" {
		return name + "." + ext
	}
	return name
}

func shortPart(b []byte, lower bool) string {
	part := strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return '_'
		}
		return r
	}, strings.TrimRight(string(b), " "))
	if lower {
		return strings.ToLower(part)
	}
	return part
}

func (d dirent) checksum() byte {
	var sum byte
	for _, b := range d[:direntAttr] {
		sum = sum>>1 | sum<<7
		sum += b
	}
	return sum
}

// longName collects the entries before a short one, the end of the name first.
type longName struct {
	at    []int64 // where they are on the volume
	units []uint16
	next  int // the number that the following entry must have, 0 for none
	sum   byte
}

// add takes an entry, and returns those that have turned out to belong to no
// short name.
func (l *longName) add(d dirent, at int64) (orphans []int64) {
	starts := d[direntOrder]&lastLong != 0
	if starts || d.order() != l.next || d[direntSum] != l.sum {
		orphans = l.drop()
		if !starts {
			return append(orphans, at)
		}
		l.next, l.sum = d.order(), d[direntSum]
	}
	var part []uint16
	for _, span := range [][2]int{{1, 11}, {14, 26}, {28, 32}} {
		for i := span[0]; i < span[1]; i += 2 {
			part = append(part, binary.LittleEndian.Uint16(d[i:]))
		}
	}
	l.at, l.units = append(l.at, at), append(part, l.units...)
	l.next--
	return orphans
}

// drop forgets the entries and returns them.
func (l *longName) drop() []int64 {
	at := l.at
	*l = longName{}
	return at
}

// name ends the collection at a short entry: its name, where its long name is,
// and the entries that are not its.
func (l *longName) name(d dirent) (name string, at, orphans []int64) {
	whole := len(l.at) > 0 && l.next == 0 && l.sum == d.checksum()
	units := l.units
	at = l.drop()
	if !whole {
		return d.shortName(), nil, at
	}
	for i, u := range units {
		if u == 0 {
			units = units[:i]
			break
		}
	}
	return string(utf16.Decode(units)), at, nil
}
