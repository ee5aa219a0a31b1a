package netboot

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// names returns the boards in order, so that faults come in one.
func (x Index) names() []string { return slices.Sorted(maps.Keys(x.Boards)) }

// entry is a file and what it is.
type entry struct {
	what string
	File
}

func (b Board) files() []entry {
	list := []entry{{"kernel", b.Kernel}, {"initramfs", b.Initramfs}, {"image", b.Image.File}}
	if b.UKI != nil {
		list = append(list, entry{"uki", b.UKI.File})
	}
	return list
}

// valid says what of a board cannot be.
func (b Board) valid() error {
	var faults []error
	if b.Version == "" || b.Arch != "amd64" && b.Arch != "arm64" {
		faults = append(faults, fmt.Errorf("version %q and arch %q: want a version, and amd64 or arm64", b.Version, b.Arch))
	}
	for _, f := range b.files() {
		if err := f.valid(); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", f.what, err))
		}
	}
	if b.Image.DiskSize <= 0 {
		faults = append(faults, fmt.Errorf("image: disk_size is %d; want the bytes that it has unpacked", b.Image.DiskSize))
	}
	if u := b.UKI; u != nil {
		p := u.Placeholder
		if p.Length <= 0 || p.Offset <= 0 || p.Offset > u.Size || int64(p.Length) > u.Size-p.Offset {
			faults = append(faults, fmt.Errorf("uki: the placeholder, %d bytes at %d, is not within its %d bytes", p.Length, p.Offset, u.Size))
		}
	}
	if b.Tree != "" && !local(b.Tree) {
		faults = append(faults, fmt.Errorf("tree: %q is no path within the directory", b.Tree))
	}
	if strings.ContainsFunc(b.Arguments, func(r rune) bool { return r < ' ' || r > '~' }) {
		faults = append(faults, fmt.Errorf("arguments: %q is no line of printable ASCII", b.Arguments))
	}
	return errors.Join(faults...)
}

func (f File) valid() error {
	sum, err := hex.DecodeString(f.SHA256)
	switch {
	case !local(f.Path):
		return fmt.Errorf("%q is no path within the directory", f.Path)
	case f.Size <= 0:
		return fmt.Errorf("%s has the size %d", f.Path, f.Size)
	case err != nil || len(sum) != 32:
		return fmt.Errorf("%s has %q for its SHA-256; want 64 hex digits", f.Path, f.SHA256)
	}
	return nil
}

// local accepts paths below the directory, in their one clean form. A backslash
// or a colon would mean something else on Windows.
func local(p string) bool {
	return p != "." && fs.ValidPath(p) && !strings.ContainsAny(p, `\:`)
}

// check says which files of a board are not there as the index has them.
func (b Board) check(root *os.Root, name string) error {
	var faults []error
	for _, f := range b.files() {
		info, err := root.Stat(filepath.FromSlash(f.Path))
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("%s of board %s: %w", f.what, name, err))
		case !info.Mode().IsRegular():
			faults = append(faults, fmt.Errorf("%s of board %s: %s is no file", f.what, name, f.Path))
		case info.Size() != f.Size:
			faults = append(faults, fmt.Errorf("%s of board %s: %s has %d bytes, and the index says %d", f.what, name, f.Path, info.Size(), f.Size))
		}
	}
	if b.Tree == "" {
		return errors.Join(faults...)
	}
	if info, err := root.Stat(filepath.FromSlash(b.Tree)); err != nil {
		faults = append(faults, fmt.Errorf("tree of board %s: %w", name, err))
	} else if !info.IsDir() {
		faults = append(faults, fmt.Errorf("tree of board %s: %s is no directory", name, b.Tree))
	}
	return errors.Join(faults...)
}
