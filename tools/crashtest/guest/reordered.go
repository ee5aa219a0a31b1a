package main

import (
	"errors"
	"io/fs"
	"strings"

	"machined/hal"
	"machined/hal/fake"
	"machined/tools/crashtest/scenario"
)

// reordered has what chooses the slot written before the slot's files, whatever
// the order of the calls, and each of both flushed: a sabotage, which the test
// has to find. The bootloader sees its own order.
type reordered struct {
	*fake.BootFiles // what the bootloader sees
	disk            hal.BootFiles
	waiting         []func() error
}

// reorder begins with what is on the disk.
func reorder(disk hal.BootFiles, boot fs.FS) (*reordered, error) {
	tree, err := scenario.ReadTree(boot)
	if err != nil {
		return nil, err
	}
	return &reordered{BootFiles: scenario.Memory(tree), disk: disk}, disk.Unlock()
}

// write does a call on the disk: at once, or after all those that overtake it.
func (r *reordered) write(path string, call func() error) error {
	if path == "config.txt" || strings.HasPrefix(path, "loader/") {
		return call()
	}
	r.waiting = append(r.waiting, call)
	return nil
}

// drain has everything on the disk.
func (r *reordered) drain() error {
	var all []error
	for _, call := range r.waiting {
		all = append(all, call())
	}
	return errors.Join(append(all, r.disk.Lock())...)
}

func (r *reordered) Create(path string, size int64) (hal.BootWriter, error) {
	w, err := r.BootFiles.Create(path, size)
	return &reorderedWriter{w, r, path, nil}, err
}

func (r *reordered) Overwrite(path string, offset int64, data []byte) error {
	return errors.Join(r.BootFiles.Overwrite(path, offset, data), r.write(path, func() error {
		err := r.disk.Overwrite(path, offset, data)
		if errors.Is(err, hal.ErrNotFound) { // the bootloader has seen the same
			err = nil
		}
		return err
	}))
}

func (r *reordered) Rename(from, to string) error {
	return errors.Join(r.BootFiles.Rename(from, to), r.write(to, func() error { return r.disk.Rename(from, to) }))
}

func (r *reordered) Remove(path string) error {
	return errors.Join(r.BootFiles.Remove(path), r.write(path, func() error { return r.disk.Remove(path) }))
}

// reorderedWriter keeps what is written until it is closed.
type reorderedWriter struct {
	hal.BootWriter
	r    *reordered
	path string
	data []byte
}

func (w *reorderedWriter) Write(data []byte) (int, error) {
	w.data = append(w.data, data...)
	return w.BootWriter.Write(data)
}

func (w *reorderedWriter) Close() error {
	return errors.Join(w.BootWriter.Close(), w.r.write(w.path, func() error {
		to, err := w.r.disk.Create(w.path, int64(len(w.data)))
		if err != nil {
			return err
		}
		_, err = to.Write(w.data)
		return errors.Join(err, to.Close())
	}))
}
