package images

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"machined/images/fat32"
)

// systemFile is the system in a slot and in the initramfs of a netboot.
const systemFile = "system.squashfs"

// Files of the initramfs that a netbooted node looks for.
const (
	initramfsCA     = "etc/machined/netboot-ca.crt"
	initramfsConfig = "etc/machined/config.yaml"
)

// maxNewc bounds a file in a cpio archive, in bytes: its size has 8 hex digits.
const maxNewc = 1<<32 - 1

// initramfs appends an archive with the system to the initramfs that a slot has.
// The kernel unpacks archives that follow each other; one that is not packed
// itself has to begin at a multiple of 4 bytes, and zeros before it are passed over
// (Documentation/driver-api/early-userspace/buffer-format.rst).
func (n *netbootBuild) initramfs() error {
	base, _, err := source{path: "init", part: "initramfs/" + n.Board.Arch}.file(n.Store, "")
	if err != nil {
		return err
	}
	system, _, err := source{path: systemFile, part: "system/" + kernelOf(n.Board)}.file(n.Store, "")
	if err != nil {
		return err
	}
	files := []fat32.File{system, memoryFile(initramfsCA, n.CA)}
	if n.Config != nil {
		files = append(files, memoryFile(initramfsConfig, n.Config))
	}
	n.built.Initramfs, err = n.write(netbootInitramfs, base.Size+system.Size, func(w io.Writer) error {
		if err := copyFile(w, base); err != nil {
			return err
		}
		if _, err := w.Write(make([]byte, alignUp(base.Size, 4)-base.Size)); err != nil {
			return err
		}
		return writeNewc(w, files)
	})
	return err
}

func memoryFile(path string, data []byte) fat32.File {
	return fat32.File{Path: path, Size: int64(len(data)), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// writeNewc writes files and the directories above them as a cpio archive of the
// format "newc" (see the document above). Owners and times are 0, and files are
// root's alone: a config may hold secrets.
func writeNewc(w io.Writer, files []fat32.File) error {
	const directory, regular = 0o040755, 0o100600
	c := cpioWriter{w: w}
	made := make(map[string]bool)
	for _, f := range files {
		if f.Size > maxNewc {
			return fmt.Errorf("pack %s into the initramfs: it has %d bytes, and %d are the most", f.Path, f.Size, int64(maxNewc))
		}
		parts := strings.Split(f.Path, "/")
		for i := 1; i < len(parts); i++ {
			dir := strings.Join(parts[:i], "/")
			if made[dir] {
				continue
			}
			made[dir] = true
			if err := c.record(dir, directory, 2, fat32.File{}); err != nil {
				return err
			}
		}
		if err := c.record(f.Path, regular, 1, f); err != nil {
			return fmt.Errorf("pack %s into the initramfs: %w", f.Path, err)
		}
	}
	return c.record("TRAILER!!!", 0, 1, fat32.File{})
}

// cpioWriter writes records and numbers them.
type cpioWriter struct {
	w     io.Writer
	inode int
}

// record writes a record, padded to 4 bytes behind its name and its content.
func (c *cpioWriter) record(name string, mode, links int, content fat32.File) error {
	c.inode++
	header := "070701"
	// ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor,
	// rdevminor, namesize, check
	for _, field := range []int64{int64(c.inode), int64(mode), 0, 0, int64(links), 0, content.Size, 0, 0, 0, 0, int64(len(name) + 1), 0} {
		header += fmt.Sprintf("%08X", field)
	}
	header += name + "\x00"
	header += strings.Repeat("\x00", int(alignUp(int64(len(header)), 4))-len(header))
	if _, err := io.WriteString(c.w, header); err != nil {
		return err
	}
	if content.Open != nil {
		if err := copyFile(c.w, content); err != nil {
			return err
		}
	}
	_, err := c.w.Write(make([]byte, alignUp(content.Size, 4)-content.Size))
	return err
}
