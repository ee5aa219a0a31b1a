package importer

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

func TestNameOf(t *testing.T) {
	const name, ref = "io.containerd.image.name", "org.opencontainers.image.ref.name"
	for _, c := range []struct {
		annotations map[string]string
		file, want  string // none for an error
	}{
		{nil, "/boot/images/Hello.tar", "docker.io/library/hello:latest"},
		{nil, "hello.tar.gz", "docker.io/library/hello:latest"},
		{map[string]string{ref: "1.2"}, "hello.tar", "docker.io/library/hello:1.2"},
		{map[string]string{ref: "example.org/a/b:1"}, "hello.tar", "example.org/a/b:1"},
		{map[string]string{ref: "nginx:1"}, "hello.tar", "docker.io/library/nginx:1"},
		{map[string]string{name: "nginx", ref: "1"}, "hello.tar", "docker.io/library/nginx:latest"},
		{map[string]string{name: "machined.local/pause:1"}, "x", "machined.local/pause:1"},
		{nil, "what is this?.tar", ""},
		{map[string]string{ref: "a b"}, "hello.tar", ""},
	} {
		got, err := nameOf(c.annotations, c.file)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("nameOf(%v, %s) = %q, %v; want %q", c.annotations, c.file, got, err, c.want)
		}
	}
}

func TestConfigDigest(t *testing.T) {
	hex := strings.Repeat("ab", 32)
	for _, config := range []string{hex + ".json", "blobs/sha256/" + hex} {
		if got := configDigest(config); got.String() != "sha256:"+hex {
			t.Errorf("configDigest(%s) = %s", config, got)
		}
	}
}

// pair is a file of a test's tarball.
type pair struct{ name, text string }

func tarball(t *testing.T, files ...pair) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		err := w.WriteHeader(&tar.Header{Name: f.name, Size: int64(len(f.text)), Mode: 0o644})
		if _, writeErr := w.Write([]byte(f.text)); err != nil || writeErr != nil {
			t.Fatal(err, writeErr)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestScan(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b, 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const index = `{"manifests":[{"digest":"sha256:1"},{"digest":"sha256:2"}]}`
	layout := filepath.Dir(put("layout/index.json", []byte(index)))
	put("layout/blobs/sha256/1", []byte("blob"))
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(tarball(t, pair{"./index.json", index}))
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path             string
		manifests, saved int
		says             string
	}{
		{layout, 2, 0, ""},
		{put("a.tar", tarball(t, pair{"index.json", index})), 2, 0, ""},
		{put("a.tgz", packed.Bytes()), 2, 0, ""},
		{put("docker.tar", tarball(t, pair{"manifest.json", `[{"Config":"c","RepoTags":["a"]}]`})), 0, 1, ""},
		{put("other.tar", tarball(t, pair{"README", "hello"})), 0, 0, "no OCI image layout and no Docker tarball"},
		{put("broken.tar", tarball(t, pair{"index.json", "{"})), 0, 0, "read index.json"},
		{put("text", bytes.Repeat([]byte("text"), 300)), 0, 0, "read the tarball"},
		{filepath.Join(dir, "none"), 0, 0, "no such file"},
	} {
		got, err := scan(c.path)
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("scan(%s) = %v; want %q", filepath.Base(c.path), err, c.says)
			}
			continue
		}
		manifests := 0
		if got.index != nil {
			manifests = len(got.index.Manifests)
		}
		if err != nil || manifests != c.manifests || len(got.docker) != c.saved {
			t.Errorf("scan(%s) = %+v, %v; want %d manifests and %d Docker images", filepath.Base(c.path), got, err, c.manifests, c.saved)
		}
	}
}

// TestChoose takes one image a name, the one for this machine.
func TestChoose(t *testing.T) {
	other := &ocispec.Platform{OS: "linux", Architecture: "s390x"}
	named := map[string]string{ocispec.AnnotationRefName: "v1"}
	got, err := choose([]ocispec.Descriptor{
		{Digest: "sha256:1", Platform: other}, {Digest: "sha256:2"}, {Digest: "sha256:3", Annotations: named},
	}, "hello.tar")
	if err != nil || len(got) != 2 || got[0].Target.Digest != "sha256:2" || got[1].Name != "docker.io/library/hello:v1" {
		t.Errorf("choose() = %+v, %v; want the second and the third", got, err)
	}
	if _, err := choose([]ocispec.Descriptor{{Platform: other}}, "hello.tar"); err == nil || !strings.Contains(err.Error(), "none of its images is for") {
		t.Errorf("choose() = %v for another machine's image; want it refused", err)
	}
}
