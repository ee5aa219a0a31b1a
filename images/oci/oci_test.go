package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func hello(arch string) Image {
	return Image{
		Name: "example.org/hello:1", Arch: arch, Entrypoint: []string{"/bin/hello", "world"},
		Files: []File{{"etc/motd", 0o644, []byte("hi\n")}, {"bin/hello", 0o755, []byte("\x7fELF")}},
	}
}

func tarball(t *testing.T, i Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := Write(&b, i); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestWriteGolden notices every change of a byte: nodes that have an image
// would import it anew.
func TestWriteGolden(t *testing.T) {
	for _, c := range []struct{ arch, manifest, file string }{
		{"amd64", "sha256:21836643380c7386796f315a682870c6a0035298997ddcd14d7a2d6eb1c9ab0d", "sha256:0f7f3e82bf2487b6cef47ea36dcc19035c3716cbefacf42b5e10c23489189f8d"},
		{"arm64", "sha256:2d807090981ae9f53c50e662541c60c80083e5436ebe16e388877700f402bb7f", "sha256:46ea7520128815b6adb0be99821a610108539a99eed8d749e3028f17f5ce8218"},
	} {
		var b bytes.Buffer
		got, err := Write(&b, hello(c.arch))
		if err != nil || got != c.manifest || digest(b.Bytes()) != c.file {
			t.Errorf("Write(%s) = %s, %v and a file of %s; want %s and %s", c.arch, got, err, digest(b.Bytes()), c.manifest, c.file)
		}
	}
}

// TestWriteOrder gives the same image for files in another order.
func TestWriteOrder(t *testing.T) {
	i := hello("arm64")
	slices.Reverse(i.Files)
	if !bytes.Equal(tarball(t, i), tarball(t, hello("arm64"))) {
		t.Error("the order of the files changes the image")
	}
}

func TestWriteRefuses(t *testing.T) {
	for _, path := range []string{"", "/bin/x", "../x", "a/../b", "a//b"} {
		_, err := Write(io.Discard, Image{Name: "x", Files: []File{{Path: path}}})
		if err == nil || !strings.Contains(err.Error(), "no path below the root") {
			t.Errorf("Write() = %v for a file %q; want it refused", err, path)
		}
	}
}

// unpack lays a tarball's files out below a new directory.
func unpack(t *testing.T, b []byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	for files := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := files.Next()
		if err == io.EOF {
			return dir
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err == nil && h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else if err == nil {
			text, readErr := io.ReadAll(files)
			err = errors.Join(readErr, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func write(t *testing.T, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func zip(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(b)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestRead(t *testing.T) {
	b := tarball(t, hello("arm64"))
	for _, c := range []struct{ path, name string }{
		{write(t, "hello.tar", b), "hello.tar"},
		{write(t, "Hello.tar.gz", zip(t, b)), "Hello.tar"},
		{write(t, "hello.tgz", zip(t, b)), "hello.tar"},
		{unpack(t, b), "layout.tar"},
		{write(t, "docker.tar", dockerTarball(t)), "docker.tar"},
	} {
		s, err := Read(c.path)
		if err != nil {
			t.Errorf("Read(%s) = %v", c.name, err)
			continue
		}
		if !slices.Equal(s.Arches, []string{"arm64"}) || s.Has("amd64") || !s.Has("arm64") || s.Name() != c.name {
			t.Errorf("Read(%s) = %+v, called %s; want arm64", c.path, s, s.Name())
		}
		r, err := s.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		r.Close()
		if err != nil || int64(len(text)) != s.Size || digest(text) != "sha256:"+s.SHA256 {
			t.Errorf("Open(%s) has %d bytes, %v; want %d of the promised hash", c.name, len(text), err, s.Size)
		}
	}
}

// dockerTarball is what `docker save` wrote before it wrote layouts.
func dockerTarball(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	err := writeTar(&b, []File{
		{"manifest.json", 0o644, []byte(`[{"Config":"c.json","RepoTags":["hello:1"],"Layers":["l/layer.tar"]}]`)},
		{"c.json", 0o644, []byte(`{"os":"linux","architecture":"arm64"}`)},
		{"l/layer.tar", 0o644, []byte("layer")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadRefuses(t *testing.T) {
	whole := tarball(t, hello("arm64"))
	bad := bytes.Replace(whole, []byte("hi\n"), []byte("ho\n"), 1)
	damage := func(edit func(dir string) error) string {
		dir := unpack(t, whole)
		if err := edit(dir); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for _, c := range []struct{ name, path, says string }{
		{"nothing", filepath.Join(t.TempDir(), "none"), "no such file"},
		{"a text", write(t, "x.tar", []byte(strings.Repeat("text\n", 300))), "no OCI image layout"},
		{"half of a file", write(t, "x.tar", whole[:len(whole)/2]), "not whole"},
		{"a damaged blob", write(t, "x.tar", bad), "the file is damaged"},
		{"damaged gzip", write(t, "x.tgz", zip(t, whole)[:200]), "unexpected EOF"},
		{"no index", damage(func(dir string) error { return os.Remove(filepath.Join(dir, "index.json")) }), "neither oci-layout"},
		{"a lost blob", damage(removeLayer), "is missing: the image is not whole"},
		{"a broken index", damage(func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "index.json"), []byte("{"), 0o600)
		}), "read index.json"},
	} {
		if _, err := Read(c.path); err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("Read(%s) = %v; want the path and %q", c.name, err, c.says)
		}
	}
}

// removeLayer removes the largest blob.
func removeLayer(dir string) error {
	largest, size := "", int64(0)
	err := filepath.WalkDir(filepath.Join(dir, "blobs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Size() > size {
			largest, size = path, info.Size()
		}
		return err
	})
	return errors.Join(err, os.Remove(largest))
}

// TestOpenNotices reads a file that has changed since it was checked.
func TestOpenNotices(t *testing.T) {
	b := tarball(t, hello("arm64"))
	path := write(t, "hello.tar", b)
	s, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(b, 0), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, r); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("reading a changed file = %v; want it noticed", err)
	}
}
