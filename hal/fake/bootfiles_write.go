package fake

import (
	"errors"
	"strings"

	"machined/hal"
)

func (b *BootFiles) makeDirs(dir string) {
	if dir == "." || b.now.find(dir) >= 0 {
		return
	}
	b.makeDirs(dirOf(dir))
	b.do(effect{kind: makesDir, path: dir})
}

// Create implements hal.BootFiles.
func (b *BootFiles) Create(path string, size int64) (hal.BootWriter, error) {
	if err := b.check("Create", path, true); err != nil {
		return nil, err
	}
	free, err := b.Free()
	if err != nil {
		return nil, err
	}
	i := b.now.find(path)
	if i >= 0 && !b.now.nodes[i].dir {
		free += b.now.chain(b.now.nodes[i].ino).size
	}
	switch {
	case size < 0, i >= 0 && b.now.nodes[i].dir:
		return nil, hal.ErrInvalid
	case size > free:
		return nil, hal.ErrNoSpace
	}
	b.makeDirs(dirOf(path))
	if !b.now.isDir(dirOf(path)) {
		return nil, hal.ErrNotFound // below a file
	}
	w := &bootWriter{files: b, path: path, ino: b.newChain(path)}
	b.do(effect{kind: linksFile, path: path, ino: w.ino})
	return w, nil
}

// bootWriter is a file being written.
type bootWriter struct {
	files *BootFiles
	path  string
	ino   int
	size  int64
}

// Write implements hal.BootWriter. The disk gets 2 KiB at a time.
func (w *bootWriter) Write(data []byte) (int, error) {
	if err := w.files.failing("Write"); err != nil {
		return 0, err
	}
	free, err := w.files.Free()
	if err != nil {
		return 0, err
	}
	if int64(len(data)) > free {
		return 0, hal.ErrNoSpace
	}
	for done := 0; done < len(data); {
		part := data[done:min(done+4*sectorSize, len(data))]
		w.files.do(effect{kind: writes, ino: w.ino, offset: w.size, data: append([]byte(nil), part...)})
		w.size += int64(len(part))
		w.files.do(effect{kind: resizes, ino: w.ino, offset: w.size})
		done += len(part)
	}
	return len(data), nil
}

// Close implements hal.BootWriter.
func (w *bootWriter) Close() error {
	if err := w.files.failing("Close"); err != nil {
		return err
	}
	w.files.flush(w.path, w.ino)
	return nil
}

// Replace implements hal.BootFiles.
func (b *BootFiles) Replace(path string, data []byte) error {
	if err := b.failing("Replace"); err != nil {
		return err
	}
	w, err := b.Create(path+".new", int64(len(data)))
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	if err = errors.Join(err, w.Close()); err == nil {
		err = b.Rename(path+".new", path)
	}
	if err != nil {
		return errors.Join(err, b.Remove(path+".new"))
	}
	return nil
}

// Overwrite implements hal.BootFiles.
func (b *BootFiles) Overwrite(path string, offset int64, data []byte) error {
	if err := b.check("Overwrite", path, true); err != nil {
		return err
	}
	ino, err := b.file(path)
	if err != nil {
		return err
	}
	if offset < 0 || offset > b.now.chain(ino).size-int64(len(data)) {
		return hal.ErrInvalid
	}
	for len(data) > 0 {
		n := min(int64(len(data)), sectorSize-offset%sectorSize)
		b.do(effect{kind: writes, ino: ino, offset: offset, data: append([]byte(nil), data[:n]...)})
		data, offset = data[n:], offset+n
	}
	b.flush(path, ino)
	return nil
}

// Rename implements hal.BootFiles. The new name, the old one, and that of a file
// whose place is taken are effects of their own.
func (b *BootFiles) Rename(from, to string) error {
	if err := b.check("Rename", from, true); err != nil {
		return err
	}
	if !validBootPath(to) {
		return hal.ErrInvalid
	}
	ino, err := b.file(from)
	if err != nil {
		return err
	}
	if b.now.isDir(to) {
		return hal.ErrInvalid
	}
	b.flush(from, ino)
	b.makeDirs(dirOf(to))
	if b.now.find(to) >= 0 {
		b.do(effect{kind: unlinks, path: to})
	}
	b.do(effect{kind: linksFile, path: to, ino: ino})
	if from != to {
		b.do(effect{kind: unlinks, path: from})
	}
	b.flush(to, ino)
	b.flush(from, ino)
	return nil
}

// Remove implements hal.BootFiles. What is in a directory goes before it.
func (b *BootFiles) Remove(path string) error {
	if err := b.check("Remove", path, true); err != nil {
		return err
	}
	i := b.now.find(path)
	if i < 0 {
		return nil
	}
	path = b.now.nodes[i].path
	var inside []string
	for _, n := range b.now.nodes {
		if strings.EqualFold(dirOf(n.path), path) {
			inside = append(inside, n.path)
		}
	}
	for _, p := range inside {
		b.removeAll(p)
	}
	b.do(effect{kind: unlinks, path: path})
	b.flush(path, -1)
	return nil
}

func (b *BootFiles) removeAll(path string) {
	for _, n := range append([]node(nil), b.now.nodes...) {
		if strings.EqualFold(dirOf(n.path), path) {
			b.removeAll(n.path)
		}
	}
	b.do(effect{kind: unlinks, path: path})
}
