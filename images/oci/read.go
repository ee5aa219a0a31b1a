package oci

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// maxDocument is the largest file that may be an index, a manifest or a
	// config, and maxDocuments what is kept of them, in bytes.
	maxDocument  = 1 << 20
	maxDocuments = 64 << 20
)

// Source is an image file that Read has checked.
type Source struct {
	Path   string   // of the layout's directory or the tarball
	Arches []string // GOARCHes that it has an image for
	Size   int64    // of the tarball, bytes
	SHA256 string   // of the tarball
}

// Read checks the OCI image layout (a directory or a tarball, perhaps in gzip)
// or Docker tarball at name: its blobs have the digests that they are called
// by, and everything that its indexes name is there.
func Read(name string) (*Source, error) {
	s := &Source{Path: name}
	r, err := s.open()
	if err != nil {
		return nil, fmt.Errorf("read the image %s: %w", name, err)
	}
	defer r.Close()
	sum := sha256.New()
	counted := io.TeeReader(r, sum)
	size := &counter{r: counted}
	err = s.check(size)
	if err == nil {
		_, err = io.Copy(io.Discard, size) // what is behind the archive's end
	}
	if err != nil {
		return nil, fmt.Errorf("read the image %s: %w", name, err)
	}
	s.Size, s.SHA256 = size.n, hex.EncodeToString(sum.Sum(nil))
	return s, nil
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// Name is what the tarball is called on a card: the file's name with .tar.
func (s *Source) Name() string {
	base := filepath.Base(s.Path)
	for _, ext := range []string{".gz", ".tgz", ".tar"} {
		base = strings.TrimSuffix(base, ext)
	}
	return base + ".tar"
}

// Has says whether there is an image for the architecture.
func (s *Source) Has(arch string) bool { return slices.Contains(s.Arches, arch) }

// Open returns the tarball. What is no longer as it was read ends in an error
// in place of io.EOF.
func (s *Source) Open() (io.ReadCloser, error) {
	r, err := s.open()
	if err != nil {
		return nil, fmt.Errorf("read the image %s: %w", s.Path, err)
	}
	return &checked{ReadCloser: r, source: s, sum: sha256.New()}, nil
}

type checked struct {
	io.ReadCloser
	source *Source
	sum    hash.Hash
}

func (c *checked) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.sum.Write(b[:n])
	if err == io.EOF && hex.EncodeToString(c.sum.Sum(nil)) != c.source.SHA256 {
		err = fmt.Errorf("the image %s has changed while it was read; build again", c.source.Path)
	}
	return n, err
}

// open returns the tarball; a directory is packed on the way.
func (s *Source) open() (io.ReadCloser, error) {
	info, err := os.Stat(s.Path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return os.Open(s.Path)
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(packDir(w, s.Path)) }()
	return r, nil
}

// packDir packs a layout in the order of its files' names.
func packDir(w io.Writer, dir string) error {
	t := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(rel), Mode: 0o644, Size: info.Size()}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err = io.Copy(t, f)
		return err
	})
	return errors.Join(err, t.Close())
}

// check reads the tarball once, and fills in the architectures.
func (s *Source) check(r io.Reader) error {
	buffered := bufio.NewReader(r)
	r = buffered
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return fmt.Errorf("unpack gzip: %w", err)
		}
		r = z
	}
	l := layout{documents: make(map[string][]byte), files: make(map[string]bool)}
	files := tar.NewReader(r)
	for {
		h, err := files.Next()
		if err == io.EOF {
			break
		}
		if err != nil && len(l.files) == 0 {
			return fmt.Errorf("it is no OCI image layout and no tarball of one: %w", err)
		}
		if err != nil {
			return fmt.Errorf("the tarball is not whole: %w", err)
		}
		if err := l.add(path.Clean(h.Name), h, files); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	var err error
	s.Arches, err = l.arches()
	return err
}

// layout is what is remembered of a tarball.
type layout struct {
	documents map[string][]byte // small files, by path
	kept      int
	files     map[string]bool
}

func (l *layout) add(name string, h *tar.Header, r io.Reader) error {
	l.files[name] = true
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	var small bytes.Buffer
	sum := sha256.New()
	out := io.Writer(sum)
	if h.Size <= maxDocument {
		if l.kept += int(h.Size); l.kept > maxDocuments {
			return errors.New("there are too many small files for an image")
		}
		out = io.MultiWriter(sum, &small)
		defer func() { l.documents[name] = small.Bytes() }()
	}
	if _, err := io.Copy(out, r); err != nil {
		return fmt.Errorf("the file is not whole: %w", err)
	}
	want, isBlob := strings.CutPrefix(name, "blobs/sha256/")
	if got := hex.EncodeToString(sum.Sum(nil)); isBlob && got != want {
		return fmt.Errorf("the file is damaged: its SHA-256 is %s", got)
	}
	return nil
}

// arches lists the architectures of the images.
func (l *layout) arches() ([]string, error) {
	var found []string
	var err error
	switch {
	case l.files["index.json"] && l.files["oci-layout"]:
		err = l.walk("index.json", &found, 0)
	case l.files["manifest.json"]:
		err = l.docker(&found)
	default:
		err = errors.New("it is no OCI image layout and no Docker tarball: it has neither oci-layout and index.json nor manifest.json")
	}
	slices.Sort(found)
	return slices.Compact(found), err
}

func (l *layout) document(name string, into any) error {
	text, ok := l.documents[name]
	if !ok {
		return fmt.Errorf("%s is missing: the image is not whole", name)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// walk follows an index or a manifest down to the configs. Images of other
// platforms may be left out of a layout.
func (l *layout) walk(name string, found *[]string, depth int) error {
	if depth > 4 {
		return fmt.Errorf("%s: the indexes are nested too deep", name)
	}
	var d struct {
		index
		Config *descriptor  `json:"config"`
		Layers []descriptor `json:"layers"`
	}
	if err := l.document(name, &d); err != nil {
		return err
	}
	for _, m := range d.Manifests {
		if m.Platform != nil && !l.files[blobPath(m.Digest)] {
			continue
		}
		if err := l.walk(blobPath(m.Digest), found, depth+1); err != nil {
			return err
		}
	}
	if d.Config == nil {
		return nil
	}
	for _, layer := range d.Layers {
		if !l.files[blobPath(layer.Digest)] {
			return fmt.Errorf("%s is missing: the image is not whole", blobPath(layer.Digest))
		}
	}
	return l.config(blobPath(d.Config.Digest), found)
}

func (l *layout) config(name string, found *[]string) error {
	var c config
	if err := l.document(name, &c); err != nil {
		return err
	}
	if c.OS == "linux" {
		*found = append(*found, c.Architecture)
	}
	return nil
}

func (l *layout) docker(found *[]string) error {
	var list []struct {
		Config string
		Layers []string
	}
	if err := l.document("manifest.json", &list); err != nil {
		return err
	}
	for _, i := range list {
		for _, layer := range i.Layers {
			if !l.files[path.Clean(layer)] {
				return fmt.Errorf("%s is missing: the image is not whole", layer)
			}
		}
		if err := l.config(path.Clean(i.Config), found); err != nil {
			return err
		}
	}
	return nil
}
