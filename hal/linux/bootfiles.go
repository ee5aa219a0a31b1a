package linux

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"machined/hal"
)

// BootFiles is the real hal.BootFiles: a directory, which is where the boot
// partition is mounted. No path leaves it, by a link neither (os.Root).
type BootFiles struct {
	Dir string
	// Remount makes the mount at Dir read-only, or writable. The kernel refuses
	// the first while a file is open for writing, and so does not mind the
	// running slot's system image, which its loop device has open for reading.
	// It marks a FAT volume dirty while it is writable, and clean when it is
	// read-only again, unless it was dirty when it was first mounted.
	Remount func(readOnly bool) error

	unlocked bool
}

// RemountBoot returns a BootFiles.Remount for the mount m, whose options and
// flags other than ReadOnly it keeps.
func RemountBoot(mounts hal.Mounts, m hal.Mount) func(readOnly bool) error {
	return func(readOnly bool) error {
		m := m
		m.Flags = m.Flags&^hal.ReadOnly | hal.Remount
		if readOnly {
			m.Flags |= hal.ReadOnly
		}
		return mounts.Mount(m)
	}
}

// Unlock implements hal.BootFiles.
func (b *BootFiles) Unlock() error {
	if b.unlocked {
		return nil
	}
	if err := b.Remount(false); err != nil {
		return fmt.Errorf("remount %s writable: %w", b.Dir, err)
	}
	b.unlocked = true
	// The kernel has written the mark of a dirty volume and not flushed it. It has
	// to be on the disk before anything else is: a volume that a power cut has
	// damaged and that seems clean is never repaired.
	if err := b.Flush(); err != nil {
		return errors.Join(fmt.Errorf("mark the volume as being written: %w", err), b.Lock())
	}
	return nil
}

// Lock implements hal.BootFiles.
func (b *BootFiles) Lock() error {
	if !b.unlocked {
		return nil
	}
	// Even if the flush failed: what is read-only is safe from more.
	flushed := b.Flush()
	if err := b.Remount(true); err != nil {
		return errors.Join(flushed, fmt.Errorf("remount %s read-only: %w", b.Dir, err))
	}
	b.unlocked = false
	return flushed
}

// do runs f below Dir. The directory is open only as long as that, so that it
// can be unmounted at any other time.
func (b *BootFiles) do(what, name string, writes bool, f func(root *os.Root) error) error {
	err := error(nil)
	switch {
	case name != "." && !validPath(name):
		err = hal.ErrInvalid
	case writes && !b.unlocked:
		err = hal.ErrLocked
	default:
		var root *os.Root
		if root, err = os.OpenRoot(b.Dir); err == nil {
			err = errors.Join(f(root), root.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, path.Join(b.Dir, name), bootCause(err))
	}
	return nil
}

// validPath takes what fs.ValidPath does, the directory itself excepted.
func validPath(name string) bool {
	return fs.ValidPath(name) && name != "." && !strings.ContainsAny(name, "\\\x00")
}

// bootCause names an error as package hal does.
func bootCause(err error) error {
	switch {
	case errors.Is(err, hal.ErrInvalid), errors.Is(err, hal.ErrLocked):
		return err
	case absent(err):
		return fmt.Errorf("%w (%w)", hal.ErrNotFound, err)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EFBIG):
		return fmt.Errorf("%w (%w)", hal.ErrNoSpace, err)
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENAMETOOLONG):
		return fmt.Errorf("%w (%w)", hal.ErrInvalid, err)
	}
	return err
}

// Read implements hal.BootFiles.
func (b *BootFiles) Read(name string) (data []byte, err error) {
	err = b.do("read", name, false, func(root *os.Root) error {
		file, err := root.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		if data, err = io.ReadAll(io.LimitReader(file, maxFile+1)); err == nil && len(data) > maxFile {
			err = fmt.Errorf("it has more than %d bytes: %w", maxFile, hal.ErrInvalid)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// List implements hal.BootFiles.
func (b *BootFiles) List(dir string) (list []hal.BootFile, err error) {
	if dir == "" {
		dir = "."
	}
	err = b.do("list", dir, false, func(root *os.Root) error {
		d, err := root.Open(dir)
		if err != nil {
			return err
		}
		defer d.Close()
		entries, err := d.ReadDir(-1)
		if err != nil {
			return err
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				return err
			}
			f := hal.BootFile{Name: e.Name(), Dir: e.IsDir()}
			if !f.Dir {
				f.Size = info.Size()
			}
			list = append(list, f)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b hal.BootFile) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

// Hash implements hal.BootFiles. It streams, and leaves nothing of the file in
// the page cache: a system image is as large as what small boards have to spare.
func (b *BootFiles) Hash(name string) (sum [32]byte, err error) {
	err = b.do("hash", name, false, func(root *os.Root) error {
		file, err := root.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		// Dirty pages would stay: they go to the disk first. That works on a
		// file that is open for reading, and on a file system that is read-only.
		if err := file.Sync(); err != nil && !errors.Is(err, unix.EROFS) {
			return err
		}
		defer dropCache(file)
		dropCache(file)
		h := sha256.New()
		buffer := make([]byte, 128<<10)
		// The wrapper hides ReadFrom and WriteTo, which would not use the buffer.
		if _, err := io.CopyBuffer(h, struct{ io.Reader }{file}, buffer); err != nil {
			return err
		}
		h.Sum(sum[:0])
		return nil
	})
	return sum, err
}

// dropCache is advice (posix_fadvise(2)): the kernel drops clean pages that
// nobody has mapped.
func dropCache(file *os.File) { _ = unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED) }

// Free implements hal.BootFiles.
func (b *BootFiles) Free() (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(b.Dir, &s); err != nil {
		return 0, fmt.Errorf("ask for the free space of %s: %w", b.Dir, err)
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// Flush implements hal.BootFiles.
func (b *BootFiles) Flush() error {
	return b.do("flush", ".", false, func(root *os.Root) error {
		dir, err := root.Open(".")
		if err != nil {
			return err
		}
		defer dir.Close()
		return errors.Join(unix.Syncfs(int(dir.Fd())), dir.Sync())
	})
}

var _ hal.BootFiles = (*BootFiles)(nil)
