package images_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"machined/board"
	"machined/images"
	"machined/images/oci"
	"machined/images/parts"
)

// container writes the tarball of an image, and reads it as a source.
func container(t *testing.T, name, arch string) *oci.Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = oci.Write(f, oci.Image{Name: "example.org/" + name, Arch: arch, Files: []oci.File{{Path: "x", Mode: 0o755, Data: []byte(name)}}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := oci.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestContainers finds the images on the card as they were, in the manifest
// and in the size of the boot partition, on a volume without faults.
func TestContainers(t *testing.T) {
	store := fakeStore(t)
	forEachBoard(t, func(t *testing.T, b board.Board) {
		o := fakeOptions(b, store)
		without := build(t, o)
		o.Containers = []*oci.Source{container(t, "one.tar", b.Arch), container(t, "Two.tar", b.Arch)}
		img := build(t, o)
		if img.SHA256 == without.SHA256 {
			t.Error("the image is the same with and without container images")
		}
		checkVolume(t, img.Path)
		for i, s := range o.Containers {
			want := images.ContainerImage{Path: "images/" + s.Name(), Size: s.Size, SHA256: s.SHA256}
			if got := img.Manifest.Containers; len(got) != 2 || got[i] != want {
				t.Fatalf("the manifest has %+v; want %+v", got, want)
			}
			copied := filepath.Join(t.TempDir(), "copy")
			tool(t, "mcopy", "-i", img.Path+"@@1M", "::images/"+s.Name(), copied)
			if sum, _, err := parts.Hash(copied); err != nil || sum != s.SHA256 {
				t.Errorf("%s on the card has %s, %v; want %s", s.Name(), sum, err, s.SHA256)
			}
		}
		if again := build(t, o); again.SHA256 != img.SHA256 {
			t.Errorf("a second build is %s; want %s", again.SHA256, img.SHA256)
		}
	})
}

func TestContainersRefused(t *testing.T) {
	store := fakeStore(t)
	b := boardNamed(t, "rpi-3a-plus")
	one := container(t, "one.tar", "arm64")
	for _, c := range []struct {
		sources []*oci.Source
		says    string
	}{
		{[]*oci.Source{container(t, "x.tar", "amd64")}, "is for amd64, and the board runs arm64"},
		{[]*oci.Source{one, container(t, "ONE.tar", "arm64")}, "are both called ONE.tar on the card"},
	} {
		o := fakeOptions(b, store)
		o.Containers = c.sources
		if _, err := images.Build(filepath.Join(t.TempDir(), "node.img"), o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Build() = %v; want %q", err, c.says)
		}
	}
}
