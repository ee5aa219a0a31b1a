package fatfs

import (
	"fmt"
	"io"
	"io/fs"
)

// body reads the contents of a file or directory through its extents, with
// one read of the volume for each extent that a request touches.
type body struct {
	fs      *FS
	extents []extent
	size    int64
}

// ReadAt implements io.ReaderAt.
func (b *body) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fs.ErrInvalid
	}
	done := 0
	for _, e := range b.extents {
		length := int64(e.count) * b.fs.clusterBytes
		if off >= length {
			off -= length
			continue
		}
		n := min(int64(len(p)-done), length-off)
		at := b.fs.dataOffset + int64(e.first-firstCluster)*b.fs.clusterBytes + off
		got, err := b.fs.r.ReadAt(p[done:done+int(n)], at)
		done += got
		if int64(got) < n {
			return done, fmt.Errorf("fatfs: reading the volume at %d: %w", at, err)
		}
		if done == len(p) {
			return done, nil
		}
		off = 0
	}
	return done, io.EOF
}

// file is an open file. The SectionReader brings Read, Seek and ReadAt.
type file struct {
	*io.SectionReader
	entry *entry
}

func (f *file) Stat() (fs.FileInfo, error) { return f.entry, nil }
func (f *file) Close() error               { return nil }

// dirFile is an open directory.
type dirFile struct {
	fs    *FS
	entry *entry
	rest  []*entry
	read  bool
}

func (d *dirFile) Stat() (fs.FileInfo, error) { return d.entry, nil }
func (d *dirFile) Close() error               { return nil }

func (d *dirFile) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.entry.name, Err: fs.ErrInvalid}
}

// ReadDir implements fs.ReadDirFile.
func (d *dirFile) ReadDir(n int) ([]fs.DirEntry, error) {
	if !d.read {
		list, err := d.fs.readDir(d.entry.first)
		if err != nil {
			return nil, &fs.PathError{Op: "readdir", Path: d.entry.name, Err: err}
		}
		d.rest, d.read = list, true
	}
	count := len(d.rest)
	if n > 0 {
		if count == 0 {
			return nil, io.EOF
		}
		count = min(n, count)
	}
	list := make([]fs.DirEntry, count)
	for i, e := range d.rest[:count] {
		list[i] = e
	}
	d.rest = d.rest[count:]
	return list, nil
}
