package importer

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// maxIndex bounds what is read of an index, in bytes.
const maxIndex = 4 << 20

// contents is what a layout or tarball says of itself.
type contents struct {
	index  *ocispec.Index // of an OCI layout
	docker []dockerImage  // of a tarball of `docker save` before version 25
}

// dockerImage is an entry of a Docker tarball's manifest.json.
type dockerImage struct {
	Config   string
	RepoTags []string
}

// scan reads the indexes of the image at name, and none of its layers.
func scan(name string) (contents, error) {
	r, err := open(name)
	if err != nil {
		return contents{}, err
	}
	defer r.Close()
	var c contents
	files := tar.NewReader(r)
	for {
		h, err := files.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return contents{}, fmt.Errorf("read the tarball: %w", err)
		}
		switch path.Clean(h.Name) {
		case ocispec.ImageIndexFile:
			err = decode(files, h.Name, &c.index)
		case "manifest.json":
			err = decode(files, h.Name, &c.docker)
		}
		if err != nil {
			return contents{}, err
		}
	}
	if c.index == nil && c.docker == nil {
		return contents{}, errors.New("it is no OCI image layout and no Docker tarball: it has neither index.json nor manifest.json")
	}
	return c, nil
}

func decode(r io.Reader, name string, into any) error {
	if err := json.NewDecoder(io.LimitReader(r, maxIndex)).Decode(into); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// open returns the image at name as a tarball: a directory is packed on the
// way, and gzip is unpacked.
func open(name string) (io.ReadCloser, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		r, w := io.Pipe()
		go func() { w.CloseWithError(pack(w, os.DirFS(name))) }()
		return r, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	magic := make([]byte, 2)
	if _, err := f.ReadAt(magic, 0); err != nil || !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return f, nil // tar tells what is wrong with it
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("unpack gzip: %w", err)
	}
	return struct {
		io.Reader
		io.Closer
	}{z, f}, nil
}

// pack writes the files of a layout as a tarball.
func pack(w io.Writer, layout fs.FS) error {
	t := tar.NewWriter(w)
	err := fs.WalkDir(layout, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		f, err := layout.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := t.WriteHeader(&tar.Header{Name: name, Size: info.Size(), Mode: 0o644}); err != nil {
			return err
		}
		_, err = io.Copy(t, f)
		return err
	})
	return errors.Join(err, t.Close())
}

// nameOf returns the reference that an image of an index goes by, spelled as
// CRI looks it up. An image whose annotations have a tag alone, or nothing, is
// called after its file.
func nameOf(annotations map[string]string, file string) (string, error) {
	name := annotations[images.AnnotationImageName]
	if tag := annotations[ocispec.AnnotationRefName]; name == "" && tag != "" {
		if name = tag; !strings.ContainsAny(tag, "/:@") {
			name = baseName(file) + ":" + tag
		}
	}
	if name == "" {
		name = baseName(file)
	}
	ref, err := reference.ParseDockerRef(name)
	if err != nil {
		return "", fmt.Errorf("the image's name %q is no reference; name the file or the annotation %s otherwise: %w", name, ocispec.AnnotationRefName, err)
	}
	return ref.String(), nil
}

// baseName is a file's name without what tells its format, in lower case as
// references are.
func baseName(file string) string {
	base := filepath.Base(file)
	for _, ext := range []string{".gz", ".tgz", ".tar", ".oci", ".docker"} {
		base = strings.TrimSuffix(base, ext)
	}
	return strings.ToLower(base)
}

// configDigest is an image's id as the name of its config in a Docker tarball
// has it: HEX.json or blobs/sha256/HEX.
func configDigest(config string) digest.Digest {
	hex := strings.TrimSuffix(path.Base(config), ".json")
	return digest.NewDigestFromEncoded(digest.SHA256, hex)
}
