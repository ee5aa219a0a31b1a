package fat

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// directory is one that was found. They are gone through in the order of being
// found, so that a deep tree takes no stack.
type directory struct {
	name  string
	up    int // index of the parent, -1 of the root
	depth int // 0 for the root
	first uint32
	at    []int64 // its entries in the parent

	shortened bool
}

// scan is what was found on the way through a directory.
type scan struct {
	long longName
	ends []int64 // entries that were never used: the directory may end there
}

// path names entry name of directory i.
func (c *checker) path(i int, name string) string {
	for ; i > 0; i = c.dirs[i].up {
		name = c.dirs[i].name + "/" + name
	}
	return name
}

// walk goes through the tree.
func (c *checker) walk() error {
	c.dirs = []directory{{up: -1, first: c.root}}
	for i := 0; i < len(c.dirs); i++ {
		if err := c.walkDirectory(i); err != nil {
			name := "the root directory"
			if i > 0 {
				name = c.path(c.dirs[i].up, c.dirs[i].name)
			}
			return fmt.Errorf("%.300q: %w", name, err)
		}
	}
	return nil
}

func (c *checker) walkDirectory(i int) error {
	d := c.dirs[i]
	got, err := c.claim(d.first, int64(c.clusters))
	switch {
	case err != nil:
		return err
	case got.count*c.clusterBytes > maxDirBytes:
		return fmt.Errorf("it has more than %d bytes: %w", maxDirBytes, ErrDamaged)
	case got.count == 0 && i == 0:
		return fmt.Errorf("its cluster %d is marked free: %w", d.first, ErrDamaged)
	case got.count == 0:
		return c.removeDirectory(i)
	}
	if got.broken {
		c.end(got.last)
		c.shortened(i)
	}
	var s scan
	for at := d.first; ; at = c.table.get(at) {
		gone, err := c.walkCluster(i, at, at == got.last, &s)
		if err != nil || gone {
			return err
		}
		if at == got.last {
			return c.orphans(s.long.drop())
		}
	}
}

// walkCluster goes through one cluster of directory i. It says so if the
// directory is gone with it.
func (c *checker) walkCluster(i int, cluster uint32, last bool, s *scan) (gone bool, err error) {
	at, buf := c.clusterAt(cluster), c.buf
	if _, err := c.disk.ReadAt(buf, at); err != nil {
		return false, fmt.Errorf("read cluster %d: %w", cluster, err)
	}
	begins, skip := cluster == c.dirs[i].first, 0
	if begins && i > 0 {
		if skip, err = c.dots(i, buf); err != nil {
			return false, err
		}
		if state := c.judge(buf); skip == 0 && last && (state == garbage || state == empty) {
			c.surplus = append(c.surplus, cluster)
			return true, c.removeDirectory(i)
		}
		if skip == 0 {
			return false, fmt.Errorf("cluster %d of it does not begin a directory: %w", cluster, ErrDamaged)
		}
	}
	for n := 0; n < len(buf); n, skip = n+atomicBytes, 0 {
		atom, atomAt := buf[n+skip:n+atomicBytes], at+int64(n+skip)
		switch state := c.judge(atom); {
		case state == garbage && last && (i > 0 || !begins):
			err = c.erase(i, atom, atomAt, s)
		case state == garbage, state == mixed:
			err = fmt.Errorf("cluster %d of it holds no sound directory: %w", cluster, ErrDamaged)
		default:
			err = c.walkAtom(i, atom, atomAt, s)
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// dots returns the length of the two entries that a directory begins with, or
// 0 if none of them is there.
func (c *checker) dots(i int, buf dirent) (int, error) {
	up := c.dirs[c.dirs[i].up].first
	one, two := buf[:direntBytes], buf[direntBytes:2*direntBytes]
	self := string(one[:direntAttr]) == dotName && one.dir() && one.first() == c.dirs[i].first
	parent := string(two[:direntAttr]) == dotDotName && two.dir() &&
		(two.first() == up || two.first() == 0 && c.dirs[i].up == 0)
	switch {
	case self && parent:
		return 2 * direntBytes, nil
	case self || parent:
		return 0, fmt.Errorf("its entries \".\" and \"..\" do not fit to where it is: %w", ErrDamaged)
	}
	return 0, nil
}

// What a part of a directory may hold.
const (
	sound   = iota // files
	empty          // nothing but free entries, or parts of long names
	garbage        // no file, and what no driver writes
	mixed          // both
)

func (c *checker) judge(buf []byte) int {
	good, bad := 0, 0
	for ; len(buf) >= direntBytes; buf = buf[direntBytes:] {
		switch d := dirent(buf[:direntBytes]); {
		case d.free():
		case !d.plausible(c.valid):
			bad++
		case !d.long() && !d.label():
			good++
		}
	}
	switch {
	case bad > 0 && good > 0:
		return mixed
	case bad > 0:
		return garbage
	case good == 0:
		return empty
	}
	return sound
}

// erase marks the entries in buf, at the offset at, as deleted: they are what
// was there before the last cluster was given to directory i, and what was to
// replace them had not reached the disk.
func (c *checker) erase(i int, buf []byte, at int64, s *scan) error {
	c.shortened(i)
	if err := c.orphans(s.long.drop()); err != nil {
		return err
	}
	for ; len(buf) >= direntBytes; buf, at = buf[direntBytes:], at+direntBytes {
		if dirent(buf).free() {
			continue
		}
		if err := c.patch(at, deleted); err != nil {
			return err
		}
	}
	return nil
}

// removeDirectory removes a directory that has no contents.
func (c *checker) removeDirectory(i int) error {
	c.lost++
	c.report.Removed.add(c.path(c.dirs[i].up, c.dirs[i].name))
	for _, at := range c.dirs[i].at {
		if err := c.patch(at, deleted); err != nil {
			return err
		}
	}
	return nil
}

// shortened notes that directory i lost something, once.
func (c *checker) shortened(i int) {
	if c.dirs[i].shortened {
		return
	}
	c.dirs[i].shortened = true
	c.lost++
	path := "/"
	if i > 0 {
		path = c.path(i, "")
	}
	c.report.Shortened.add(path)
}

// orphans removes entries of long names that belong to nothing.
func (c *checker) orphans(at []int64) error {
	for _, o := range at {
		if err := c.patch(o, deleted); err != nil {
			return err
		}
		c.report.LongNames++
	}
	return nil
}

// goOn has a directory not end before an entry: firmware would not see it, and
// neither what Linux adds behind it. The sector before had not been written.
func (c *checker) goOn(s *scan) error {
	for _, at := range s.ends {
		if err := c.patch(at, deleted); err != nil {
			return err
		}
		c.report.Gaps++
	}
	s.ends = s.ends[:0]
	return nil
}

// walkAtom goes through the entries in buf, which start at the offset at.
func (c *checker) walkAtom(i int, buf []byte, at int64, s *scan) error {
	for ; len(buf) >= direntBytes; buf, at = buf[direntBytes:], at+direntBytes {
		d := dirent(buf[:direntBytes])
		var err error
		switch {
		case d.free():
			if d[0] == 0 {
				s.ends = append(s.ends, at)
			}
			err = c.orphans(s.long.drop())
		case d.label():
			err = errors.Join(c.orphans(s.long.drop()), c.goOn(s))
		case d.long():
			err = c.orphans(s.long.add(d, at))
		default:
			err = c.entry(i, d, at, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entry looks at a file or directory in directory i.
func (c *checker) entry(i int, d dirent, at int64, s *scan) error {
	name, longAt, orphans := s.long.name(d)
	if err := errors.Join(c.orphans(orphans), c.goOn(s)); err != nil {
		return err
	}
	if c.entries++; c.entries > maxEntries {
		return fmt.Errorf("the volume has more than %d files: %w", maxEntries, ErrDamaged)
	}
	if !d.dir() {
		if err := c.file(i, d, at, name); err != nil {
			return fmt.Errorf("its file %q: %w", name, err)
		}
		return nil
	}
	depth := c.dirs[i].depth + 1
	if depth > maxDepth || len(c.dirs) == maxDirectories || d.first() == 0 {
		return fmt.Errorf("its directory %q has no clusters, is %d deep, or one of more than %d: %w", name, depth, maxDirectories, ErrDamaged)
	}
	c.dirs = append(c.dirs, directory{name: name, up: i, depth: depth, first: d.first(), at: append(longAt, at)})
	return nil
}

// file makes a file's size and its chain agree.
func (c *checker) file(i int, d dirent, at int64, name string) error {
	if d.first() == 0 {
		if d.size() == 0 {
			return nil
		}
		return c.shorten(i, d, at, name, 0)
	}
	need := (d.size() + c.clusterBytes - 1) / c.clusterBytes
	got, err := c.claim(d.first(), need)
	if err != nil {
		return err
	}
	if got.extra != 0 {
		c.surplus = append(c.surplus, got.extra)
	}
	if got.count < need || need == 0 {
		if got.count > 0 && need > 0 && got.broken {
			c.end(got.last)
		}
		return c.shorten(i, d, at, name, got.count*c.clusterBytes)
	}
	if got.extra != 0 || got.broken {
		c.end(got.last)
		c.report.Trimmed.add(c.path(i, name))
	}
	return nil
}

// shorten has a file end with its clusters, which hold have bytes. Its new
// size, and no first cluster if there is none, is one write.
func (c *checker) shorten(i int, d dirent, at int64, name string, have int64) error {
	size := min(d.size(), have)
	if size == d.size() {
		// A file of no bytes, whose clusters were not written yet.
		c.report.Trimmed.add(c.path(i, name))
	} else {
		c.lost++
		c.report.Shortened.add(c.path(i, name))
		b := binary.LittleEndian.AppendUint32(nil, uint32(size))
		if err := c.patch(at+direntSize, b...); err != nil {
			return err
		}
	}
	if size > 0 || d.first() == 0 {
		return nil
	}
	if err := c.patch(at+direntHigh, 0, 0); err != nil {
		return err
	}
	return c.patch(at+direntLow, 0, 0)
}
