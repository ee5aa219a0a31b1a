// Package install writes a running node to a disk: the boot partition, both slots,
// config and identity. The node then boots from there.
package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"machined/hal"
)

// Source has the boot partition that the disk gets.
type Source interface {
	// Open returns the content of the partition and its size in bytes.
	Open(ctx context.Context) (boot io.ReadCloser, size int64, err error)
}

// Drivers are what an installation works with.
type Drivers struct {
	Provisioner hal.Provisioner
	Mounts      hal.Mounts
	// BootFiles are the files of the new boot partition, which is mounted at Dir
	// from device.
	BootFiles func(device string) hal.BootFiles
	// Bootloader decides which slot of them boots.
	Bootloader func(hal.BootFiles) hal.Bootloader
	Dir        string
	Say        func(format string, args ...any)
}

// Request is what to install where.
type Request struct {
	Disk   string
	Wipe   bool
	Table  hal.Table
	Source Source
	// Slot is the one that boots from what the source has.
	Slot string
	// Files are put on the boot partition beside the slots: config and identity, by
	// their paths there.
	Files map[string][]byte
	// Progress is told of the bytes that are written; may be nil.
	Progress func(done, total int64)
}

// Run installs. When it returns nil, all is on the disk, and the partition is not
// mounted. After an error, or a cut, nothing boots from the disk, and it can be
// installed on again.
func (d Drivers) Run(ctx context.Context, r Request) (err error) {
	boot, size, err := r.Source.Open(ctx)
	if err != nil {
		return fmt.Errorf("install on %s: open what is to be written: %w", r.Disk, err)
	}
	defer func() { err = errors.Join(err, boot.Close()) }()
	d.Say("Writing %d MiB to %s.", size>>20, r.Disk)
	return d.Provisioner.Install(hal.Install{
		Disk: r.Disk, Wipe: r.Wipe, Table: r.Table, Size: size, Boot: &counted{r: boot, ctx: ctx, total: size, tell: r.Progress},
		Complete: func(device string) error { return d.complete(device, r) },
	})
}

// Mount is how a boot partition is mounted: read-only, since BootFiles unlocks it.
func Mount(device, dir string) hal.Mount {
	return hal.Mount{Source: device, Target: dir, FSType: "vfat", Flags: hal.ReadOnly | hal.NoSuid | hal.NoDev | hal.NoExec, Data: "umask=0077"}
}

// complete mounts the new boot partition, fills it, and unmounts it.
func (d Drivers) complete(device string, r Request) error {
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return err
	}
	if err := d.Mounts.Mount(Mount(device, d.Dir)); err != nil {
		return err
	}
	err := d.fill(device, r)
	if unmountErr := d.Mounts.Unmount(d.Dir, false); unmountErr != nil {
		err = errors.Join(err, fmt.Errorf("unmount what was written: %w", unmountErr))
	}
	return err
}

// fill makes the second slot, and puts what is the node's own beside.
func (d Drivers) fill(device string, r Request) error {
	files := d.BootFiles(device)
	if err := d.fillSlot(files, d.Bootloader(files), r.Slot); err != nil {
		return err
	}
	return hal.WithBootFiles(files, func() error {
		paths := make([]string, 0, len(r.Files))
		for path := range r.Files {
			paths = append(paths, path)
		}
		slices.Sort(paths)
		for _, path := range paths {
			if err := hal.PutBootFile(files, path, string(r.Files[path])); err != nil {
				return err
			}
		}
		return nil
	})
}

// fillSlot copies the slot that boots to the other one, so that there is something
// to fall back to, unless there is.
func (d Drivers) fillSlot(files hal.BootFiles, loader hal.Bootloader, from string) error {
	to := hal.OtherSlot(from)
	if _, why, err := hal.ReadSlot(files, to); err != nil || why == "" {
		return err
	}
	m, why, err := hal.ReadSlot(files, from)
	if err == nil && why != "" {
		err = fmt.Errorf("slot %s is not whole: %s", from, why)
	}
	if err != nil {
		return err
	}
	line, err := files.Read(from + "/" + hal.CommandLineName)
	if err != nil {
		return err
	}
	content := hal.SlotContent{Version: m.Version, Board: m.Board, Arguments: withoutMarker(string(line))}
	for _, f := range m.Files {
		if f.Path != hal.CommandLineName {
			content.Files = append(content.Files, f)
		}
	}
	w, err := loader.Stage(from, content)
	if err != nil {
		return err
	}
	for _, f := range content.Files {
		if err := d.copyFile(w, from, f.Path); err != nil {
			return errors.Join(err, w.Abort())
		}
	}
	if err := w.Finish(); err != nil {
		return errors.Join(err, w.Abort())
	}
	// Both are good; the last that is committed boots.
	return errors.Join(loader.Commit(to), loader.Commit(from))
}

func (d Drivers) copyFile(w hal.SlotWriter, slot, path string) error {
	in, err := os.Open(filepath.Join(d.Dir, slot, filepath.FromSlash(path)))
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := w.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// withoutMarker is a slot's command line without what names the slot, which the
// bootloader adds.
func withoutMarker(line string) string {
	words := slices.DeleteFunc(strings.Fields(line), func(w string) bool { return strings.HasPrefix(w, "machined.slot=") })
	return strings.Join(words, " ")
}

// counted counts what is read, and ends with its context.
type counted struct {
	r           io.Reader
	ctx         context.Context
	done, total int64
	tell        func(done, total int64)
}

func (c *counted) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(b)
	c.done += int64(n)
	if c.tell != nil {
		c.tell(c.done, c.total)
	}
	return n, err
}
