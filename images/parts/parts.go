// Package parts is the store of the files that images are made of: kernels,
// firmware, loaders and machined's own programs, each with where it is from,
// its licence and its SHA-256.
package parts

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// IndexName is the file in the store that lists its parts.
const IndexName = "parts.json"

// Component is a work by one author that parts are taken from.
type Component struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	License string `json:"license"` // SPDX expression
	Source  string `json:"source"`  // Go module, Debian package or repository
	// GoModules lists what is linked into a Go program.
	GoModules []GoModule `json:"go_modules,omitempty"`
}

// GoModule is a Go module that is linked into a program; "stdlib" is the
// standard library.
type GoModule struct {
	Path    string `json:"path"`
	Version string `json:"version"`
	License string `json:"license"` // SPDX expression
}

// Part is one file of the store.
type Part struct {
	Name      string `json:"name"` // path in the store, slash separated
	Component string `json:"component"`
	Size      int64  `json:"size"` // bytes
	SHA256    string `json:"sha256"`
	// Holds names the parts that are packed inside of this one.
	Holds []string `json:"holds,omitempty"`
}

// Index is the contents of IndexName.
type Index struct {
	Version string `json:"version"` // of machined
	// BuildTime is the Unix time of the sources in seconds. It stamps
	// everything in an image, so that two builds do not differ.
	BuildTime  int64       `json:"build_time"`
	Components []Component `json:"components"`
	Parts      []Part      `json:"parts"`
}

// Sort orders the index, so that it does not depend on how it was collected.
func (x *Index) Sort() {
	slices.SortFunc(x.Components, func(a, b Component) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(x.Parts, func(a, b Part) int { return cmp.Compare(a.Name, b.Name) })
}

// Store is a directory of parts.
type Store struct {
	Dir   string
	Index Index
}

// Open reads the index of the store at dir.
func Open(dir string) (*Store, error) {
	b, err := os.ReadFile(filepath.Join(dir, IndexName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open the parts in %s: there is no %s; run `make parts` first: %w", dir, IndexName, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open the parts in %s: %w", dir, err)
	}
	s := &Store{Dir: dir}
	if err := json.Unmarshal(b, &s.Index); err != nil {
		return nil, fmt.Errorf("read %s; run `make parts` to make it anew: %w", filepath.Join(dir, IndexName), err)
	}
	return s, nil
}

// MismatchError says that a part is not what the index promises.
type MismatchError struct {
	Part      string
	Want, Got string // SHA-256
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("part %s is damaged: its SHA-256 is %s and the index has %s; run `make parts` to fetch it again", e.Part, e.Got, e.Want)
}

// MissingError says that the store lacks a part.
type MissingError struct {
	Part string
	Dir  string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("part %s is missing in %s; run `make parts` to fetch it", e.Part, e.Dir)
}

// Part returns the part of that name after comparing its bytes with the index.
func (s *Store) Part(name string) (Part, error) {
	i := slices.IndexFunc(s.Index.Parts, func(p Part) bool { return p.Name == name })
	if i < 0 {
		return Part{}, &MissingError{Part: name, Dir: s.Dir}
	}
	p := s.Index.Parts[i]
	sum, size, err := Hash(s.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return Part{}, &MissingError{Part: name, Dir: s.Dir}
	}
	if err != nil {
		return Part{}, fmt.Errorf("read part %s: %w", name, err)
	}
	if sum != p.SHA256 || size != p.Size {
		return Part{}, &MismatchError{Part: name, Want: p.SHA256, Got: sum}
	}
	return p, nil
}

// Open opens a part that Part has returned. Its bytes are compared again while
// they are read: what differs by then ends in a *MismatchError instead of
// io.EOF.
func (s *Store) Open(p Part) (io.ReadCloser, error) {
	f, err := os.Open(s.Path(p.Name))
	if err != nil {
		return nil, fmt.Errorf("read part %s: %w", p.Name, err)
	}
	return &checkedReader{f: f, part: p, sum: sha256.New()}, nil
}

// checkedReader compares a part's hash at the end.
type checkedReader struct {
	f    *os.File
	part Part
	sum  hash.Hash
}

func (r *checkedReader) Read(b []byte) (int, error) {
	n, err := r.f.Read(b)
	r.sum.Write(b[:n])
	if err == io.EOF {
		if got := hex.EncodeToString(r.sum.Sum(nil)); got != r.part.SHA256 {
			err = &MismatchError{Part: r.part.Name, Want: r.part.SHA256, Got: got}
		}
	}
	return n, err
}

func (r *checkedReader) Close() error { return r.f.Close() }

// Under returns the names of the parts below a directory of the store.
func (s *Store) Under(dir string) []string {
	var names []string
	for _, p := range s.Index.Parts {
		if len(p.Name) > len(dir) && p.Name[:len(dir)] == dir && p.Name[len(dir)] == '/' {
			names = append(names, p.Name)
		}
	}
	return names
}

// Component returns the component of that name.
func (s *Store) Component(name string) (Component, bool) {
	i := slices.IndexFunc(s.Index.Components, func(c Component) bool { return c.Name == name })
	if i < 0 {
		return Component{}, false
	}
	return s.Index.Components[i], true
}

// Path returns where the part's file is.
func (s *Store) Path(name string) string { return filepath.Join(s.Dir, filepath.FromSlash(name)) }

// Hash returns the SHA-256 of a file in hex, and its size in bytes.
func Hash(path string) (string, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), n, nil
}
