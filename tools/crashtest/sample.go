package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"machined/tools/crashtest/judge"
	"machined/tools/crashtest/replay"
	"machined/tools/crashtest/scenario"
)

// sample are a few images, chosen by their sums and so at random, of which each
// is upgraded over the kernel's file system.
type sample struct {
	size   int
	images []sampled // sorted by the key of the cut
}

type sampled struct {
	from string // scenario
	cut  replay.Cut
	job  scenario.Job
	path string // of a disk
	size int64  // of the boot partition, in bytes
}

// String says where the image is from.
func (s sampled) String() string {
	return fmt.Sprintf("%s, after %q, at event %d of %d, %s, then an upgrade", s.from, s.cut.After, s.cut.Position, s.cut.Of, s.cut.Left)
}

// usedBytes is how much of a boot partition is ever written: the kernel gives
// out clusters from its beginning.
const usedBytes = 32 << 20

// fill writes the boot partition.
func (s sampled) fill(w io.WriterAt) error { return copyBoot(w, s.path, s.size) }

// copyBoot copies the boot partition of a disk, and leaves out its zeros.
func copyBoot(w io.WriterAt, disk string, size int64) error {
	f, err := os.Open(disk)
	if err != nil {
		return err
	}
	defer f.Close()
	block, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); at < min(size, usedBytes); at += int64(len(block)) {
		if _, err := f.ReadAt(block, scenario.BootOffset+at); err != nil {
			return err
		}
		if bytes.Equal(block, zeros) {
			continue
		}
		if _, err := w.WriteAt(block, at); err != nil {
			return err
		}
	}
	return nil
}

func byKey(a, b sampled) int { return bytes.Compare(a.cut.Key[:], b.cut.Key[:]) }

// offer takes the image, or not.
func (s *sample) offer(t *judging, c replay.Cut) error {
	one := sampled{from: t.name, cut: c, size: t.size}
	if c.Key == ([16]byte{}) { // nothing was written
		return nil
	}
	if at, _ := slices.BinarySearchFunc(s.images, one, byKey); at == s.size {
		return nil
	}
	one.job, one.path = t.job, filepath.Join(t.dir, fmt.Sprintf("%s-%x", t.job.Serial(), c.Key))
	if err := makeDisk(one.path, t.size, t.volume.Save); err != nil {
		return err
	}
	s.images = append(s.images, one)
	slices.SortFunc(s.images, byKey)
	if len(s.images) <= s.size {
		return nil
	}
	last := s.images[s.size]
	s.images = s.images[:s.size]
	return os.Remove(last.path)
}

// check looks at what a guest has left of a disk that it upgraded.
func (c *campaign) check(r *recording) (err error) {
	volume, err := judge.NewVolume(r.path+".work", r.size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, volume.Close()) }()
	if err := copyBoot(volume, r.path, r.size); err != nil {
		return err
	}
	j := judge.Judge{Backend: r.backend, Fsck: c.fsck}
	if _, err := j.Boots(volume, r.backend.Rules); err != nil {
		return err
	}
	return c.fsck.Clean(volume)
}
