package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"machined/hal"
)

// writeBehind is how many bytes of a file may wait for the disk. More would
// only push what runs out of the page cache of a small board.
const writeBehind = 4 << 20

// Create implements hal.BootFiles.
func (b *BootFiles) Create(name string, size int64) (hal.BootWriter, error) {
	w := &bootWriter{files: b, name: name}
	err := b.do("create", name, true, func(root *os.Root) error {
		if err := makeRootDirs(root, path.Dir(name)); err != nil {
			return err
		}
		if err := b.room(root, name, size); err != nil {
			return err
		}
		var err error
		w.file, err = root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
		return err
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// room checks that size bytes fit, with what the file of that name has now.
func (b *BootFiles) room(root *os.Root, name string, size int64) error {
	if size < 0 {
		return hal.ErrInvalid
	}
	free, err := b.Free()
	if err != nil {
		return err
	}
	if info, err := root.Stat(name); err == nil && info.Mode().IsRegular() {
		free += info.Size()
	}
	if size > free {
		return fmt.Errorf("%d bytes are needed and %d are free: %w", size, free, hal.ErrNoSpace)
	}
	return nil
}

// makeRootDirs makes a directory and those above it, and has each on the disk.
func makeRootDirs(root *os.Root, dir string) error {
	if info, err := root.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := path.Dir(dir)
	if err := makeRootDirs(root, parent); err != nil {
		return err
	}
	if err := root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncRootDir(root, parent)
}

// syncRootDir has the names in a directory on the disk. fsync(2) of a file has
// its data there, and on FAT the entry with its size, but not the entries that
// hold a long name, which may lie in another sector.
func syncRootDir(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// bootWriter is a file being written.
type bootWriter struct {
	files *BootFiles
	name  string
	file  *os.File
	// size is how much was written, begun how much of that is on its way to the
	// disk, and dropped how much is there and not in memory any more. Bytes.
	size, begun, dropped int64
}

// Write implements hal.BootWriter.
func (w *bootWriter) Write(data []byte) (int, error) {
	n, err := w.file.Write(data)
	w.size += int64(n)
	if err != nil {
		return n, fmt.Errorf("write %s: %w", path.Join(w.files.Dir, w.name), bootCause(err))
	}
	if w.size-w.begun >= writeBehind {
		w.writeOut()
	}
	return n, nil
}

// writeOut starts writing what is new, waits for what was started before, and
// drops that from the page cache. Errors come again from Close's fsync(2).
func (w *bootWriter) writeOut() {
	fd := int(w.file.Fd())
	_ = unix.SyncFileRange(fd, w.begun, w.size-w.begun, unix.SYNC_FILE_RANGE_WRITE)
	if before := w.begun - w.dropped; before > 0 {
		_ = unix.SyncFileRange(fd, w.dropped, before, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
		_ = unix.Fadvise(fd, w.dropped, before, unix.FADV_DONTNEED)
	}
	w.begun, w.dropped = w.size, w.begun
}

// Close implements hal.BootWriter.
func (w *bootWriter) Close() error {
	err := w.file.Sync()
	if err == nil {
		dropCache(w.file)
	}
	if err = errors.Join(err, w.file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path.Join(w.files.Dir, w.name), bootCause(err))
	}
	return w.files.do("flush the directory of", w.name, false, func(root *os.Root) error {
		return syncRootDir(root, path.Dir(w.name))
	})
}

// Replace implements hal.BootFiles.
func (b *BootFiles) Replace(name string, data []byte) error {
	temporary := name + ".new"
	w, err := b.Create(temporary, int64(len(data)))
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	if err = errors.Join(err, w.Close()); err == nil {
		err = b.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, b.Remove(temporary))
	}
	return nil
}

// Overwrite implements hal.BootFiles.
func (b *BootFiles) Overwrite(name string, offset int64, data []byte) error {
	return b.do("overwrite", name, true, func(root *os.Root) error {
		file, err := root.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		info, err := file.Stat()
		if err == nil && (offset < 0 || offset > info.Size()-int64(len(data))) {
			err = fmt.Errorf("bytes %d to %d of a file of %d: %w", offset, offset+int64(len(data)), info.Size(), hal.ErrInvalid)
		}
		if err == nil {
			_, err = file.WriteAt(data, offset)
		}
		if err == nil {
			err = file.Sync()
		}
		return errors.Join(err, file.Close())
	})
}

// Rename implements hal.BootFiles.
func (b *BootFiles) Rename(from, to string) error {
	if !validPath(to) {
		return fmt.Errorf("rename %s to %s: %w", path.Join(b.Dir, from), to, hal.ErrInvalid)
	}
	return b.do("rename", from, true, func(root *os.Root) error {
		file, err := root.Open(from)
		if err != nil {
			return err
		}
		if err := errors.Join(file.Sync(), file.Close()); err != nil {
			return err
		}
		if err := makeRootDirs(root, path.Dir(to)); err != nil {
			return err
		}
		if err := root.Rename(from, to); err != nil {
			return err
		}
		// The new name first: of two directories, better both have it.
		return errors.Join(syncRootDir(root, path.Dir(to)), syncRootDir(root, path.Dir(from)))
	})
}

// Remove implements hal.BootFiles.
func (b *BootFiles) Remove(name string) error {
	return b.do("remove", name, true, func(root *os.Root) error {
		if _, err := root.Lstat(name); absent(err) {
			return nil
		}
		if err := root.RemoveAll(name); err != nil {
			return err
		}
		return syncRootDir(root, path.Dir(name))
	})
}
