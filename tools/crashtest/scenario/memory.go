package scenario

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"testing/fstest"

	"machined/hal"
	"machined/hal/fake"
)

// Memory returns a simulated boot partition that holds a tree.
func Memory(tree map[string][]byte) *fake.BootFiles {
	b := &fake.BootFiles{Sum: func(data []byte) [32]byte { return sha256.Sum256(data) }}
	for path, data := range tree {
		b.Put(path, data)
	}
	return b
}

// View lets the firmware see boot files as they are at each moment.
type View struct{ hal.BootFiles }

// Open implements fs.FS.
func (v View) Open(name string) (fs.File, error) {
	m := fstest.MapFS{}
	entries, err := v.List(name)
	if err == nil {
		for _, e := range entries {
			f := &fstest.MapFile{Mode: fs.ModeDir}
			if !e.Dir {
				f = &fstest.MapFile{Data: make([]byte, e.Size)}
			}
			path := e.Name
			if name != "." {
				path = name + "/" + path
			}
			m[path] = f
		}
		if name != "." {
			m[name] = &fstest.MapFile{Mode: fs.ModeDir}
		}
		return m.Open(name)
	}
	data, err := v.Read(name)
	switch {
	case errors.Is(err, hal.ErrNotFound):
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	m[name] = &fstest.MapFile{Data: data}
	return m.Open(name)
}

// ReadTree returns all files of a file system by path.
func ReadTree(boot fs.FS) (map[string][]byte, error) {
	tree := map[string][]byte{}
	err := fs.WalkDir(boot, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		tree[path], err = fs.ReadFile(boot, path)
		return err
	})
	return tree, err
}
