// Package oci makes container images of a few files, and reads what an image
// file says of itself. The format is the OCI image layout
// (github.com/opencontainers/image-spec, image-layout.md) in a tarball. The
// same input gives the same bytes.
package oci

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"

	// refName and imageName are the annotations that name an image: the
	// specification's, and containerd's for a whole reference.
	refName   = "org.opencontainers.image.ref.name"
	imageName = "io.containerd.image.name"
)

// File is a file of an image.
type File struct {
	Path string // below the root, without a leading slash
	Mode int64  // permission bits
	Data []byte
}

// Image says what an image is made of.
type Image struct {
	Name       string // reference, such as machined.local/pause:1
	Arch       string // GOARCH
	Entrypoint []string
	Files      []File
}

// platform, descriptor, manifest, index and config are the documents of the
// specification, as far as they are written here.
type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"` // bytes
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type config struct {
	platform
	Config struct {
		Entrypoint []string `json:"Entrypoint,omitempty"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// Write writes the image as a tarball, and returns the digest of its manifest.
func Write(w io.Writer, i Image) (string, error) {
	layer, err := layerOf(i.Files)
	if err != nil {
		return "", fmt.Errorf("pack the files of image %s: %w", i.Name, err)
	}
	c := config{platform: platform{i.Arch, "linux"}}
	c.Config.Entrypoint = i.Entrypoint
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{digest(layer)}
	configText, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	manifestText, err := json.Marshal(manifest{
		SchemaVersion: 2, MediaType: typeManifest,
		Config: describe(typeConfig, configText), Layers: []descriptor{describe(typeLayer, layer)},
	})
	if err != nil {
		return "", err
	}
	top := describe(typeManifest, manifestText)
	top.Platform = &c.platform
	top.Annotations = map[string]string{refName: i.Name, imageName: i.Name}
	indexText, err := json.Marshal(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{top}})
	if err != nil {
		return "", err
	}
	files := []File{
		{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{"index.json", 0o644, indexText},
	}
	for _, blob := range [][]byte{manifestText, configText, layer} {
		files = append(files, File{blobPath(digest(blob)), 0o644, blob})
	}
	if err := writeTar(w, files); err != nil {
		return "", fmt.Errorf("write image %s: %w", i.Name, err)
	}
	return top.Digest, nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// blobPath is where a layout has the blob of a digest.
func blobPath(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }

func describe(mediaType string, b []byte) descriptor {
	return descriptor{MediaType: mediaType, Digest: digest(b), Size: int64(len(b))}
}

// layerOf packs the files, with the directories that they need in front.
func layerOf(files []File) ([]byte, error) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	for _, f := range files {
		if f.Path == "" || path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || strings.HasPrefix(f.Path, "../") {
			return nil, fmt.Errorf("%q is no path below the root", f.Path)
		}
	}
	var out bytes.Buffer
	err := writeTar(&out, files)
	return out.Bytes(), err
}

// writeTar writes files that belong to root and have no times.
func writeTar(w io.Writer, files []File) error {
	t := tar.NewWriter(w)
	made := make(map[string]bool)
	for _, f := range files {
		if err := writeParents(t, path.Dir(f.Path), made); err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Mode: f.Mode, Size: int64(len(f.Data)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
		if _, err := t.Write(f.Data); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	return t.Close()
}

func writeParents(t *tar.Writer, dir string, made map[string]bool) error {
	if dir == "." || made[dir] {
		return nil
	}
	made[dir] = true
	h := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	return errors.Join(writeParents(t, path.Dir(dir), made), t.WriteHeader(h))
}
