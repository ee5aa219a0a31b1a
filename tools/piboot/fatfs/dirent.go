package fatfs

import (
	"encoding/binary"
	"io/fs"
	"strings"
	"time"
	"unicode/utf16"
)

const (
	direntBytes = 32

	attrVolumeID  = 0x08
	attrDirectory = 0x10
	attrLongName  = 0x0f
	attrMask      = 0x3f

	lowerBase = 0x08 // the two case bits of Windows NT
	lowerExt  = 0x10

	maxLongEntries = 20
)

// entry is one file or directory. It serves as its own fs.FileInfo.
type entry struct {
	name  string
	short string // upper-case, with the dot
	dir   bool
	first uint32
	size  int64
	at    time.Time
}

func (e *entry) Name() string               { return e.name }
func (e *entry) Size() int64                { return e.size }
func (e *entry) ModTime() time.Time         { return e.at }
func (e *entry) IsDir() bool                { return e.dir }
func (e *entry) Sys() any                   { return nil }
func (e *entry) Type() fs.FileMode          { return e.Mode().Type() }
func (e *entry) Info() (fs.FileInfo, error) { return e, nil }
func (e *entry) String() string             { return fs.FormatDirEntry(e) }

func (e *entry) Mode() fs.FileMode {
	if e.dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

// parseDir gives the usable entries of a directory. Entries that no path can
// name are left out rather than reported: a directory with one bad name is
// still good for the others.
func parseDir(raw []byte) []*entry {
	var list []*entry
	var long longName
	seen := map[string]bool{}
	for ; len(raw) >= direntBytes && raw[0] != 0; raw = raw[direntBytes:] {
		d := raw[:direntBytes]
		switch {
		case d[0] == 0xe5: // deleted
			long = longName{}
		case d[11]&attrMask == attrLongName:
			long.add(d)
		case d[11]&attrVolumeID != 0 || d[0] == '.':
			long = longName{}
		default:
			e := parseShort(d)
			if name := long.name(d); name != "" {
				e.name = name
			}
			long = longName{}
			// A name that stands twice could be listed twice, but opened once.
			if usable := fs.ValidPath(e.name) && e.name != "." && !strings.Contains(e.name, "/"); usable && !seen[fold(e.name)] {
				seen[fold(e.name)] = true
				list = append(list, e)
			}
		}
	}
	return list
}

func parseShort(d []byte) *entry {
	le := binary.LittleEndian
	base, ext := shortPart(d[:8]), shortPart(d[8:11])
	e := &entry{
		short: join(base, ext),
		dir:   d[11]&attrDirectory != 0,
		first: uint32(le.Uint16(d[20:]))<<16 | uint32(le.Uint16(d[26:])),
		size:  int64(le.Uint32(d[28:])),
		at:    parseTime(le.Uint16(d[24:]), le.Uint16(d[22:])),
	}
	if e.dir {
		e.size = 0
	}
	if d[12]&lowerBase != 0 {
		base = strings.ToLower(base)
	}
	if d[12]&lowerExt != 0 {
		ext = strings.ToLower(ext)
	}
	e.name = join(base, ext)
	return e
}

// shortPart decodes the padded bytes of a short name. What lies beyond ASCII
// depends on a code page that the volume does not name.
func shortPart(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		if c >= 0x80 {
			s.WriteByte('_')
		} else {
			s.WriteByte(c)
		}
	}
	return strings.TrimRight(s.String(), " ")
}

func join(base, ext string) string {
	if ext == "" {
		return base
	}
	return base + "." + ext
}

func parseTime(date, clock uint16) time.Time {
	return time.Date(1980+int(date>>9), time.Month(date>>5&15), int(date&31),
		int(clock>>11), int(clock>>5&63), int(clock&31)*2, 0, time.UTC)
}

// longName collects the entries that precede a short one, last part first.
type longName struct {
	units []uint16
	next  int // the number that the following entry must have
	sum   byte
}

func (l *longName) add(d []byte) {
	number := int(d[0] & 0x1f)
	if d[0]&0x40 != 0 && number <= maxLongEntries {
		*l = longName{next: number, sum: d[13]}
	}
	if number == 0 || number != l.next || d[13] != l.sum {
		*l = longName{}
		return
	}
	var part []uint16
	for _, span := range [][2]int{{1, 11}, {14, 26}, {28, 32}} {
		for at := span[0]; at < span[1]; at += 2 {
			part = append(part, binary.LittleEndian.Uint16(d[at:]))
		}
	}
	l.units = append(part, l.units...)
	l.next--
}

// name gives the long name of the short entry d, or "" if the collected
// entries are not complete or belong to another one.
func (l *longName) name(d []byte) string {
	if l.next != 0 || len(l.units) == 0 {
		return ""
	}
	var sum byte
	for _, c := range d[:11] {
		sum = sum>>1 | sum<<7
		sum += c
	}
	if sum != l.sum {
		return ""
	}
	units := l.units
	for i, u := range units {
		if u == 0 {
			units = units[:i]
			break
		}
	}
	return string(utf16.Decode(units))
}
