package crash

import (
	"errors"
	"strings"
	"testing"

	"machined/hal"
	"machined/hal/fake"
)

// enough is the number of bricks after which a search ends.
const enough = 20

// bricks counts the cuts of a journal from which the board does not boot. It
// begins at the end, where what was not flushed has piled up.
func bricks(m machine, b *fake.BootFiles) int {
	found := 0
	for n := b.Effects(); n >= 0; n-- {
		for _, fate := range variants(b.Pending(n), uint64(n)) {
			if _, err := Check(volume(b.PowerCut(n, fate)), m.rules); errors.Is(err, ErrBrick) {
				if found++; found == enough {
					return found
				}
			}
		}
	}
	return found
}

// TestBricksWithoutFlushes has a disk that does not flush when it says so.
func TestBricksWithoutFlushes(t *testing.T) {
	for _, m := range machines() {
		s := scenarios()[0]
		b, err := s.prepare(m)
		if err != nil {
			t.Fatal(err)
		}
		b.Lying = true
		err = s.run(m, b, func(rules Rules) (string, error) { return m.start(b, volume(b), rules) })
		if found := bricks(m, b); err != nil || found == 0 {
			t.Errorf("%s: %d bricks, %v, on a disk that does not flush; want some, or the test does not bite", m.name, found, err)
		}
	}
}

// overtaking has what chooses the slot written before the slot's files, whatever
// the order of the calls. The bootloader sees them in its own order.
type overtaking struct {
	*fake.BootFiles // what the bootloader sees
	disk            *fake.BootFiles
	waiting         []func() error
}

// write does a call on the disk: at once, or after all those that overtake it.
func (o *overtaking) write(path string, call func() error) error {
	if path == "config.txt" || strings.HasPrefix(path, "loader/") {
		return call()
	}
	o.waiting = append(o.waiting, call)
	return nil
}

// drain has everything on the disk.
func (o *overtaking) drain() error {
	var all []error
	for _, call := range o.waiting {
		all = append(all, call())
	}
	o.waiting = nil
	return errors.Join(all...)
}

func (o *overtaking) Create(path string, size int64) (hal.BootWriter, error) {
	w, err := o.BootFiles.Create(path, size)
	return &overtakingWriter{w, o, path, nil}, err
}

func (o *overtaking) Overwrite(path string, offset int64, data []byte) error {
	return errors.Join(o.BootFiles.Overwrite(path, offset, data), o.write(path, func() error { return o.disk.Overwrite(path, offset, data) }))
}

func (o *overtaking) Rename(from, to string) error {
	return errors.Join(o.BootFiles.Rename(from, to), o.write(to, func() error { return o.disk.Rename(from, to) }))
}

func (o *overtaking) Remove(path string) error {
	return errors.Join(o.BootFiles.Remove(path), o.write(path, func() error { return o.disk.Remove(path) }))
}

// overtakingWriter keeps what is written until it is closed.
type overtakingWriter struct {
	hal.BootWriter
	o    *overtaking
	path string
	data []byte
}

func (w *overtakingWriter) Write(data []byte) (int, error) {
	w.data = append(w.data, data...)
	return w.BootWriter.Write(data)
}

func (w *overtakingWriter) Close() error {
	return errors.Join(w.BootWriter.Close(), w.o.write(w.path, func() error {
		to, err := w.o.disk.Create(w.path, int64(len(w.data)))
		if err != nil {
			return err
		}
		_, err = to.Write(w.data)
		return errors.Join(err, to.Close())
	}))
}

// TestBricksWithoutOrder has a disk on which the choice of the slot overtakes
// what is in it, each of both flushed.
func TestBricksWithoutOrder(t *testing.T) {
	for _, m := range machines() {
		s := scenarios()[0]
		b, err := s.prepare(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Unlock(); err != nil {
			t.Fatal(err)
		}
		o := &overtaking{BootFiles: b.PowerCut(0, nil), disk: b}
		err = s.run(m, o, func(rules Rules) (string, error) { return m.start(o, volume(o.BootFiles), rules) })
		if err := errors.Join(err, o.drain()); err != nil {
			t.Fatal(err)
		}
		if _, err := Check(volume(b), m.rules); err != nil {
			t.Errorf("%s: at the end: %v; want the same as in order", m.name, err)
		}
		if found := bricks(m, b); found == 0 {
			t.Errorf("%s: no brick without the order; the test does not bite", m.name)
		}
	}
}
