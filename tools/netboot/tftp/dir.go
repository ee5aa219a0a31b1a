package tftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// Dir serves the files of a directory. Nothing outside of it can be opened,
// neither by ".." nor by symbolic links: each opening is by os.Root.
type Dir struct{ root *os.Root }

// OpenDir opens a directory for serving.
func OpenDir(name string) (*Dir, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("open the directory to serve by TFTP: %w", err)
	}
	return &Dir{root}, nil
}

// Close closes the directory. Files that are open stay so.
func (d *Dir) Close() error { return d.root.Close() }

// Clean makes a client's name one with slashes, relative and without "." and
// "..". Backslashes, which Windows' boot programs send, are slashes; upper and
// lower case stay. False is a name that cannot be a file's.
func Clean(name string) (string, bool) {
	name = path.Clean("/" + strings.ReplaceAll(name, `\`, "/"))[1:]
	return name, name != "" && fs.ValidPath(name) && !strings.ContainsRune(name, 0)
}

// Open opens a regular file; it fits Options.Open.
func (d *Dir) Open(_ context.Context, _ Client, name string) (Content, error) {
	clean, ok := Clean(name)
	if !ok {
		return nil, fmt.Errorf("%q names no file: %w", name, fs.ErrNotExist)
	}
	// Look first: opening a pipe would wait for a writer.
	info, err := d.root.Stat(clean)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is no regular file: %w", clean, fs.ErrNotExist)
	}
	f, err := d.root.Open(clean)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return file{f, info.Size()}, nil
}

// Check returns an error that has each of the names that cannot be served.
func (d *Dir) Check(names ...string) error {
	var faults []error
	for _, n := range names {
		c, err := d.Open(context.Background(), Client{}, n)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s is offered and cannot be served from %s: %w", n, d.root.Name(), err))
			continue
		}
		_ = c.Close()
	}
	return errors.Join(faults...)
}

type file struct {
	*os.File
	size int64
}

func (f file) Size() int64 { return f.size }

// Bytes is content in memory. It must not change while it is read.
func Bytes(b []byte) Content { return memory{bytes.NewReader(b)} }

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }
