// Package statefile keeps what a netboot server knows in files that are whole
// whenever its power goes.
package statefile

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// Replace puts data in the place of a file, which is its owner's alone: by a new one
// and a rename, all of it on the disk when it returns.
func Replace(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(name string) error {
	if runtime.GOOS == "windows" {
		return nil // cannot, and need not
	}
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
