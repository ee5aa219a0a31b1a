package linux

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"machined/hal"
)

// Files is the real hal.Files. Paths are below Root, which is empty but in
// tests.
type Files struct {
	Root string
	// writing has a mutex for each path, as two writes of the same file share a name
	// beside it. One file must not wait for another: they may be on a slow card and
	// in RAM.
	writing sync.Map
}

// maxFile is the most that Read returns, in bytes.
const maxFile = 1 << 20

// Read implements hal.Files.
func (f *Files) Read(path string) ([]byte, error) {
	file, err := os.Open(f.Root + path)
	if absent(err) {
		err = fmt.Errorf("%w (%w)", hal.ErrNotFound, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("read %s: it has more than %d bytes: %w", path, maxFile, hal.ErrInvalid)
	}
	return b, nil
}

// absent reports whether a file, or a directory on the way to it, is not there.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

// Replace implements hal.Files.
func (f *Files) Replace(path string, data []byte, public bool) error {
	if len(data) > maxFile {
		return fmt.Errorf("write %s: %d bytes are more than the %d that can be read back: %w", path, len(data), maxFile, hal.ErrInvalid)
	}
	one, _ := f.writing.LoadOrStore(path, new(sync.Mutex))
	one.(*sync.Mutex).Lock()
	defer one.(*sync.Mutex).Unlock()
	modes := struct{ dir, file fs.FileMode }{0o700, 0o600}
	if public {
		modes.dir, modes.file = 0o755, 0o644
	}
	at := f.Root + path
	if err := makeDirs(filepath.Dir(at), modes.dir); err != nil {
		return fmt.Errorf("make the directory of %s: %w", path, err)
	}
	if err := writeBeside(at, data, modes.file); err != nil {
		if errors.Is(err, unix.ENOSPC) {
			err = fmt.Errorf("%w (%w)", hal.ErrNoSpace, err)
		}
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := syncDir(filepath.Dir(at)); err != nil {
		return fmt.Errorf("sync the directory of %s: %w", path, err)
	}
	return nil
}

// writeBeside writes a file of another name in the same directory, and renames
// it once its data is on the disk. A cut may leave that file behind: the next
// write takes the same name.
func writeBeside(path string, data []byte, mode fs.FileMode) error {
	temporary := filepath.Join(filepath.Dir(path), ".new."+filepath.Base(path))
	// One with the right mode from the start: a key must not be readable for a
	// moment. What lies there is removed: it may be a link to somewhere.
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Chmod(mode) // whatever the umask
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return nil
}

// makeDirs makes a directory and those above it, and has each on the disk
// before anything is put into it.
func makeDirs(dir string, mode fs.FileMode) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDirs(parent, mode); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Remove implements hal.Files.
func (f *Files) Remove(path string) error {
	err := os.Remove(f.Root + path)
	if absent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return syncDir(filepath.Dir(f.Root + path))
}

var _ hal.Files = (*Files)(nil)
