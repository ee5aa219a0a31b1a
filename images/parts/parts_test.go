package parts

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// newStore makes a store of the given files.
func newStore(t *testing.T, files map[string]string) *Store {
	t.Helper()
	dir := t.TempDir()
	index := Index{Version: "v1", BuildTime: 1000, Components: []Component{{Name: "zebra"}, {Name: "ant", License: "MIT"}}}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		sum, size, err := Hash(path)
		if err != nil {
			t.Fatal(err)
		}
		index.Parts = append(index.Parts, Part{Name: name, Component: "ant", Size: size, SHA256: sum})
	}
	index.Sort()
	b, err := json.Marshal(index)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, IndexName), b, 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestHash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "abc")
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The first example of FIPS 180-2.
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if sum, size, err := Hash(path); sum != want || size != 3 || err != nil {
		t.Errorf("Hash(abc) = %s, %d, %v; want %s, 3", sum, size, err, want)
	}
	if _, _, err := Hash(path + "d"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Hash() = %v without a file; want fs.ErrNotExist", err)
	}
}

func TestOpenIndex(t *testing.T) {
	s := newStore(t, map[string]string{"b/2": "two", "a": "one", "b/1": "three"})
	if got := []string{s.Index.Parts[0].Name, s.Index.Parts[1].Name, s.Index.Parts[2].Name}; !slices.Equal(got, []string{"a", "b/1", "b/2"}) {
		t.Errorf("the parts are in the order %q", got)
	}
	if c, ok := s.Component("ant"); !ok || c.License != "MIT" || s.Index.Components[0].Name != "ant" {
		t.Errorf("Component(ant) = %+v, %v; want it, and the components in order", c, ok)
	}
	if c, ok := s.Component("bee"); ok {
		t.Errorf("Component(bee) = %+v; want none", c)
	}
	dir := t.TempDir()
	if _, err := Open(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "run `make parts` first") {
		t.Errorf("Open() = %v of an empty directory; want to be told to run make parts", err)
	}
	if err := os.WriteFile(filepath.Join(dir, IndexName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "make it anew") {
		t.Errorf("Open() = %v of a damaged index; want to be told to make it anew", err)
	}
}

func TestUnder(t *testing.T) {
	s := newStore(t, map[string]string{"dtb/a": "", "dtb/b/c": "", "dtbs/d": "", "dtb2": "", "overlays/e": ""})
	for _, c := range []struct {
		dir  string
		want []string
	}{{"dtb", []string{"dtb/a", "dtb/b/c"}}, {"overlays", []string{"overlays/e"}}, {"dtb2", nil}, {"none", nil}} {
		if got := s.Under(c.dir); !slices.Equal(got, c.want) {
			t.Errorf("Under(%s) = %q; want %q", c.dir, got, c.want)
		}
	}
}

func TestPart(t *testing.T) {
	s := newStore(t, map[string]string{"kernel/a": "good", "kernel/b": "good", "kernel/c": "good", "kernel/d": "good"})
	for name, text := range map[string]string{"kernel/b": "bad!", "kernel/c": "good and longer"} {
		if err := os.WriteFile(s.Path(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(s.Path("kernel/d")); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Part("kernel/a"); err != nil || p.Size != 4 || p.Component != "ant" {
		t.Errorf("Part(kernel/a) = %+v, %v; want it", p, err)
	}
	for _, name := range []string{"kernel/b", "kernel/c"} {
		var mismatch *MismatchError
		if _, err := s.Part(name); !errors.As(err, &mismatch) || mismatch.Part != name || mismatch.Got == mismatch.Want {
			t.Errorf("Part(%s) = %v; want a MismatchError that names it", name, err)
		}
	}
	for _, name := range []string{"kernel/d", "kernel/none"} {
		var missing *MissingError
		if _, err := s.Part(name); !errors.As(err, &missing) || missing.Part != name || missing.Dir != s.Dir {
			t.Errorf("Part(%s) = %v; want a MissingError that names it", name, err)
		}
	}
}

// TestOpenPart reads a part, and one that was changed after it was checked.
func TestOpenPart(t *testing.T) {
	s := newStore(t, map[string]string{"kernel": strings.Repeat("kernel", 10000)})
	p, err := s.Part("kernel")
	if err != nil {
		t.Fatal(err)
	}
	read := func() (string, error) {
		r, err := s.Open(p)
		if err != nil {
			return "", err
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		return string(b), err
	}
	if got, err := read(); got != strings.Repeat("kernel", 10000) || err != nil {
		t.Errorf("Open(kernel) gave %d bytes, %v; want its contents", len(got), err)
	}
	if err := os.WriteFile(s.Path("kernel"), []byte(strings.Repeat("kernal", 10000)), 0o644); err != nil {
		t.Fatal(err)
	}
	var mismatch *MismatchError
	if _, err := read(); !errors.As(err, &mismatch) || mismatch.Part != "kernel" {
		t.Errorf("Open(kernel) = %v after a change; want a MismatchError", err)
	}
	if err := os.Remove(s.Path("kernel")); err != nil {
		t.Fatal(err)
	}
	if _, err := read(); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "kernel") {
		t.Errorf("Open(kernel) = %v without its file; want fs.ErrNotExist", err)
	}
}
