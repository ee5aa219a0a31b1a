package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func newTestCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{store: t.TempDir(), cache: t.TempDir(), work: t.TempDir()}
	return c
}

func TestCached(t *testing.T) {
	c := newTestCollector(t)
	made := 0
	write := func(path string) error {
		made++
		return os.WriteFile(path, fmt.Append(nil, "made ", made), 0o600)
	}
	for _, step := range []struct {
		key, want string
	}{{"one", "made 1"}, {"one", "made 1"}, {"two", "made 2"}, {"one", "made 1"}} {
		path, err := c.cached("thing", step.key, write)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != step.want {
			t.Errorf("cached(%s) = a file with %q, %v; want %q", step.key, got, err, step.want)
		}
	}
	failed := errors.New("failed")
	if _, err := c.cached("thing", "three", func(path string) error {
		return errors.Join(os.WriteFile(path, []byte("half"), 0o600), failed)
	}); !errors.Is(err, failed) {
		t.Errorf("cached() = %v; want the error", err)
	}
	if _, err := os.Stat(filepath.Join(c.cache, "thing", "three")); err == nil {
		t.Error("a file that failed half-way is in the cache")
	}
}

// TestPrune keeps what was used last, not what was made last.
func TestPrune(t *testing.T) {
	c := newTestCollector(t)
	write := func(path string) error { return os.WriteFile(path, nil, 0o600) }
	for i, key := range []string{"a", "b", "c"} {
		path, err := c.cached("thing", key, write)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Duration(i-10) * time.Minute)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"a", "d"} {
		if _, err := c.cached("thing", key, write); err != nil {
			t.Fatal(err)
		}
	}
	var left []string
	entries, err := os.ReadDir(filepath.Join(c.cache, "thing"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{"a", "c", "d"}; !slices.Equal(left, want) {
		t.Errorf("the cache keeps %q; want %q", left, want)
	}
}

// TestKeyOf finds another key for every difference that an archive of the tree
// would show, and the same for a copy.
func TestKeyOf(t *testing.T) {
	seen := make(map[string]string)
	try := func(name, recipe string, edit func(dir string) error) string {
		dir := t.TempDir()
		writeTree(t, dir, map[string]string{"etc/hosts": "localhost", "sbin/init": "program"})
		if err := errors.Join(os.Symlink("hosts", filepath.Join(dir, "etc/link")), edit(dir)); err != nil {
			t.Fatal(err)
		}
		key, err := keyOf(recipe, dir)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[key]; ok && name != "copy" {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[key] = name
		return key
	}
	nothing := func(string) error { return nil }
	first := try("tree", "1", nothing)
	if again := try("copy", "1", nothing); again != first {
		t.Errorf("a copy has the key %s; want %s", again, first)
	}
	try("another recipe", "2", nothing)
	try("other contents", "1", func(dir string) error { return os.WriteFile(filepath.Join(dir, "sbin/init"), []byte("PROGRAM"), 0o600) })
	try("another mode", "1", func(dir string) error { return os.Chmod(filepath.Join(dir, "sbin/init"), 0o700) })
	try("another name", "1", func(dir string) error { return os.Rename(filepath.Join(dir, "sbin"), filepath.Join(dir, "bin")) })
	try("one more directory", "1", func(dir string) error { return os.Mkdir(filepath.Join(dir, "proc"), 0o755) })
	try("another link", "1", func(dir string) error {
		link := filepath.Join(dir, "etc/link")
		return errors.Join(os.Remove(link), os.Symlink("/etc/hosts", link))
	})
	if _, err := keyOf("1", filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("keyOf() = %v without a tree; want os.ErrNotExist", err)
	}
}

func TestReplaceDir(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "parts")
	for _, text := range []string{"first", "second"} {
		fresh := filepath.Join(dir, "fresh")
		writeTree(t, fresh, map[string]string{text: text})
		// What an interrupted run has left is no hindrance.
		writeTree(t, out+".old", map[string]string{"rest": ""})
		if err := replaceDir(fresh, out); err != nil {
			t.Fatal(err)
		}
		if got := readTree(t, out); len(got) != 1 || got[text] != text {
			t.Errorf("replaceDir() left %v; want the %s store alone", got, text)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v; want the store alone", left, err)
	}
}
