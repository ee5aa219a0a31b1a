package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// copyModules copies the kernel's modules, and the text indexes for finding
// the one that drives a device. Some kernels have none.
func copyModules(from, to string) error {
	releases, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, r := range releases {
		if err := copyRelease(filepath.Join(from, r.Name()), filepath.Join(to, r.Name())); err != nil {
			return fmt.Errorf("copy the modules of kernel %s: %w", r.Name(), err)
		}
	}
	return nil
}

// wanted says whether an image takes a module. Tuners and cameras are most of
// the modules, and no use here.
func wanted(module string) bool {
	return path.Ext(module) == ".ko" && !strings.Contains(module, "/drivers/media/")
}

// copyRelease copies the modules of one kernel. The indexes lose the modules
// that are left out, so that the node does not look for them in vain.
func copyRelease(from, to string) error {
	kept := make(map[string]bool) // by path below from
	err := filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(from, file)
		if err != nil || !wanted(filepath.ToSlash(rel)) {
			return err
		}
		kept[filepath.ToSlash(rel)] = true
		return copyFile(file, filepath.Join(to, rel))
	})
	if err != nil {
		return err
	}
	for name, keep := range map[string]func(line string) (bool, error){
		"modules.dep":     func(line string) (bool, error) { return keepDependency(line, kept) },
		"modules.alias":   func(line string) (bool, error) { return keepAlias(line, kept), nil },
		"modules.builtin": func(string) (bool, error) { return true, nil },
	} {
		if err := filterLines(filepath.Join(from, name), filepath.Join(to, name), keep); err != nil {
			return err
		}
	}
	return nil
}

// keepDependency judges a line of modules.dep: a module, and what it needs.
func keepDependency(line string, kept map[string]bool) (bool, error) {
	module, needs, _ := strings.Cut(line, ":")
	if !kept[module] {
		return false, nil
	}
	for _, n := range strings.Fields(needs) {
		if !kept[n] {
			return false, fmt.Errorf("%s needs %s, which is left out", module, n)
		}
	}
	return true, nil
}

// keepAlias judges a line of modules.alias: alias PATTERN MODULE. It names a
// module by its file's name, with underscores.
func keepAlias(line string, kept map[string]bool) bool {
	fields := strings.Fields(line)
	if len(fields) != 3 || fields[0] != "alias" {
		return true // a comment
	}
	for file := range kept {
		if strings.ReplaceAll(strings.TrimSuffix(path.Base(file), ".ko"), "-", "_") == fields[2] {
			return true
		}
	}
	return false
}

// filterLines copies the lines of a file that keep agrees to.
func filterLines(from, to string, keep func(line string) (bool, error)) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for line := range strings.Lines(string(text)) {
		ok, err := keep(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(from), err)
		}
		if ok {
			out.WriteString(line)
		}
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, out.Bytes(), 0o644)
}
