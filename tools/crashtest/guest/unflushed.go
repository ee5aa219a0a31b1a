package main

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"

	"machined/hal"
	"machined/hal/linux"
)

// unflushed are boot files of which nothing is flushed: a sabotage, which the
// test has to find.
type unflushed struct {
	*linux.BootFiles
	dir      string
	unlocked bool
}

func (u *unflushed) path(name string) string { return filepath.Join(u.dir, name) }

func (u *unflushed) Unlock() error { return u.remount(true) }
func (u *unflushed) Lock() error   { return u.remount(false) }
func (u *unflushed) Flush() error  { return nil }

func (u *unflushed) remount(writable bool) error {
	if u.unlocked == writable {
		return nil
	}
	u.unlocked = writable
	return u.BootFiles.Remount(!writable)
}

func (u *unflushed) Hash(path string) ([32]byte, error) {
	data, err := u.Read(path)
	return sha256.Sum256(data), err
}

func (u *unflushed) Create(path string, _ int64) (hal.BootWriter, error) {
	if err := os.MkdirAll(filepath.Dir(u.path(path)), 0o755); err != nil {
		return nil, err
	}
	return os.Create(u.path(path))
}

func (u *unflushed) Replace(path string, data []byte) error {
	return errors.Join(os.WriteFile(u.path(path)+".new", data, 0o644), u.Rename(path+".new", path))
}

func (u *unflushed) Overwrite(path string, offset int64, data []byte) error {
	file, err := os.OpenFile(u.path(path), os.O_WRONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return hal.ErrNotFound
	}
	if err != nil {
		return err
	}
	_, err = file.WriteAt(data, offset)
	return errors.Join(err, file.Close())
}

func (u *unflushed) Rename(from, to string) error { return os.Rename(u.path(from), u.path(to)) }
func (u *unflushed) Remove(path string) error     { return os.RemoveAll(u.path(path)) }
