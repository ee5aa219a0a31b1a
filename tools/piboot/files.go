package piboot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// ErrOutside is the reason for a path that would leave the boot partition.
var ErrOutside = errors.New("the path leaves the boot partition")

// confine joins a prefix, which need not be a directory, and a name to a path
// that fs.FS takes. A name that starts with a slash takes no prefix.
func confine(prefix, name string) (string, error) {
	if strings.HasPrefix(name, "/") {
		prefix = ""
	}
	joined := prefix + name
	for _, part := range strings.Split(joined, "/") {
		if part == ".." {
			return "", fmt.Errorf("piboot: %q: %w; write it without \"..\"", joined, ErrOutside)
		}
	}
	clean := strings.TrimPrefix(path.Clean("/"+joined), "/")
	if clean == "" {
		clean = "."
	}
	return clean, nil
}

// find gives the path of the file name under prefix, and whether it is there.
func (d *decision) find(prefix, name string) (file string, ok bool, err error) {
	if file, err = confine(prefix, name); err != nil {
		return "", false, err
	}
	if !fs.ValidPath(file) {
		return file, false, nil // a damaged config file; no volume has such a name
	}
	info, err := fs.Stat(d.boot, file)
	if errors.Is(err, fs.ErrNotExist) {
		return file, false, nil
	}
	if err != nil {
		return file, false, fmt.Errorf("piboot: looking for %s on the boot partition: %w", file, err)
	}
	return file, info.Mode().IsRegular(), nil
}

// findFirst gives the first of names that is there under prefix.
func (d *decision) findFirst(prefix string, names []string) (file string, ok bool, err error) {
	for _, name := range names {
		if file, ok, err = d.find(prefix, name); ok || err != nil {
			return file, ok, err
		}
	}
	return "", false, nil
}

// config parses the config file name.
func (d *decision) config(name string, includes bool) (Settings, error) {
	f, err := d.boot.Open(name)
	if err != nil {
		return Settings{}, fmt.Errorf("piboot: opening %s on the boot partition: %w", name, err)
	}
	defer f.Close()
	c := Conditions{Board: d.board, Tryboot: d.tryboot}
	if includes {
		c.Files = d.boot
	}
	s, err := ParseConfig(f, c)
	if err != nil {
		return Settings{}, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// cmdlineBytes is COMMAND_LINE_SIZE of an arm64 kernel.
const cmdlineBytes = 2048

// readCmdline gives the first line of a command line file.
func (d *decision) readCmdline(name string) (string, error) {
	f, err := d.boot.Open(name)
	if err != nil {
		return "", fmt.Errorf("piboot: opening %s on the boot partition: %w", name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return "", fmt.Errorf("piboot: reading %s on the boot partition: %w", name, err)
	}
	line, rest, _ := strings.Cut(string(data), "\n")
	if strings.TrimSpace(rest) != "" {
		d.warn("%s has more than one line; only the first counts", name)
	}
	if line = strings.TrimRight(line, " \t\r\x00"); len(line) > cmdlineBytes {
		d.warn("%s has %d characters; the kernel takes %d", name, len(line), cmdlineBytes)
	}
	return line, nil
}
