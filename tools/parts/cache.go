package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"machined/images/parts"
)

// generations is how many versions of a thing the cache keeps, so that going
// back and forth between two sources costs nothing.
const generations = 3

// cached returns the path of a file in the cache, which write makes where it
// is not there. key stands for everything that the file is made from.
func (c *collector) cached(name, key string, write func(path string) error) (string, error) {
	dir := filepath.Join(c.cache, name)
	path := filepath.Join(dir, key)
	if err := os.Chtimes(path, time.Time{}, time.Now()); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(c.work, "new-")
	if err != nil {
		return "", err
	}
	if err := write(filepath.Join(fresh, "file")); err != nil {
		return "", fmt.Errorf("make %s: %w", name, err)
	}
	if err := os.Rename(filepath.Join(fresh, "file"), path); err != nil {
		return "", err
	}
	return path, prune(dir)
}

// prune removes what was not used for longest.
func prune(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	used := make(map[string]time.Time)
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // another run may have removed it
			used[e.Name()] = info.ModTime()
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return used[b.Name()].Compare(used[a.Name()]) })
	for _, e := range entries[min(generations, len(entries)):] {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// keyOf returns a key for the cache: a recipe, and the names, modes and
// contents of the file or the tree at root.
func keyOf(recipe, root string) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", recipe)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		contents := ""
		switch {
		case d.Type().IsRegular():
			contents, _, err = parts.Hash(path)
		case d.Type() == fs.ModeSymlink:
			contents, err = os.Readlink(path)
		}
		fmt.Fprintf(h, "%q %v %q\n", rel, info.Mode(), contents)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("find out whether %s has changed: %w", root, err)
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// writeFile makes a file of what write writes.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
