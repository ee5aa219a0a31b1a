package images_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"machined/board"
	"machined/images"
	"machined/images/bundle"
	"machined/images/parts"
)

var bundleKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

func bundleOptions(b board.Board, store *parts.Store) images.BundleOptions {
	return images.BundleOptions{Board: b, Store: store, MinVersion: "v1.0.0", Keys: []ed25519.PrivateKey{bundleKey}}
}

func buildBundle(t *testing.T, o images.BundleOptions) images.Bundle {
	t.Helper()
	built, err := images.BuildBundle(filepath.Join(t.TempDir(), "node.bundle"), o)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// readBundle reads and checks a bundle, and returns its files.
func readBundle(t *testing.T, path string) (*bundle.Manifest, map[string]string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := bundle.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Verify([]ed25519.PublicKey{bundleKey.Public().(ed25519.PublicKey)}); err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for {
		entry, err := b.Next()
		if err == io.EOF {
			return b.Manifest(), files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(b)
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Path] = string(text)
	}
}

// TestBundleIsSlot compares a bundle with both slots of an image: with the two
// files that the node writes it is what they hold.
func TestBundleIsSlot(t *testing.T) {
	store := fakeStore(t)
	forEachBoard(t, func(t *testing.T, b board.Board) {
		m, files := readBundle(t, buildBundle(t, bundleOptions(b, store)).Path)
		if m.Version != fakeVersion || m.Board != b.Name || m.BuildTime != fakeBuildTime || m.MinVersion != "v1.0.0" {
			t.Errorf("the manifest has %s, %s, %d, minimum %s", m.Version, m.Board, m.BuildTime, m.MinVersion)
		}
		words := strings.Fields(m.Arguments)
		if !slices.Contains(words, "panic=10") || strings.Contains(m.Arguments, "machined.slot") {
			t.Errorf("the arguments are %q; want panic=10 and no slot", m.Arguments)
		}
		v, _ := volume(t, build(t, fakeOptions(b, store)).Path)
		for _, slot := range []string{"A", "B"} {
			if got, want := readFile(t, v, slot+"/cmdline.txt"), m.Arguments+" machined.slot="+slot+"\n"; got != want {
				t.Errorf("slot %s has the command line %q; want %q", slot, got, want)
			}
			want := map[string]string{}
			err := fs.WalkDir(v, slot, func(name string, d fs.DirEntry, err error) error {
				if path := strings.TrimPrefix(name, slot+"/"); err == nil && !d.IsDir() && path != "cmdline.txt" && path != images.ManifestName {
					want[path] = readFile(t, v, name)
				}
				return err
			})
			if err != nil || !sameMaps(files, want) {
				t.Errorf("the bundle has %d files and slot %s %d, %v; want the same", len(files), slot, len(want), err)
			}
		}
	})
}

// TestBundleReproducible builds from two stores, at other places.
func TestBundleReproducible(t *testing.T) {
	here, there := fakeStore(t), fakeStore(t)
	age(t, there)
	forEachBoard(t, func(t *testing.T, b board.Board) {
		first, second := buildBundle(t, bundleOptions(b, here)), buildBundle(t, bundleOptions(b, there))
		if first.SHA256 != second.SHA256 {
			t.Errorf("BuildBundle() = %s, then %s", first.SHA256, second.SHA256)
		}
		if sum, size, err := parts.Hash(first.Path); err != nil || sum != first.SHA256 || size != first.Size {
			t.Errorf("BuildBundle() = %s, %d bytes; the file has %s, %d bytes, %v", first.SHA256, first.Size, sum, size, err)
		}
	})
}

// TestBundleProgress has the callback end at the total, and never go back.
func TestBundleProgress(t *testing.T) {
	o := bundleOptions(boardNamed(t, "rpi-3a-plus"), fakeStore(t))
	var last, total int64
	o.Progress = func(done, all int64) {
		if done < last || done > all || total != 0 && all != total {
			t.Errorf("progress(%d, %d) after (%d, %d)", done, all, last, total)
		}
		last, total = done, all
	}
	m := buildBundle(t, o).Manifest
	if last != total || total != m.Size() || total == 0 {
		t.Errorf("the progress ended at %d of %d; want %d", last, total, m.Size())
	}
}

// TestBundleFails leaves nothing behind, and an earlier bundle as it was.
func TestBundleFails(t *testing.T) {
	const kernel = "kernel/arm64"
	var missing *parts.MissingError
	var mismatch *parts.MismatchError
	for _, c := range []struct {
		name  string
		spoil func(*images.BundleOptions)
		is    func(error) bool
		says  string
	}{
		{"a missing part", func(o *images.BundleOptions) { remove(t, o.Store.Path(kernel)) }, func(err error) bool { return errors.As(err, &missing) }, "part " + kernel + " is missing"},
		{"a damaged part", func(o *images.BundleOptions) { flipByte(t, o.Store.Path(kernel)) }, func(err error) bool { return errors.As(err, &mismatch) }, "part " + kernel + " is damaged"},
		{"a part that changes meanwhile", func(o *images.BundleOptions) {
			path := o.Store.Path("system/arm64") // the last file
			o.Progress = func(int64, int64) {
				if o.Progress != nil {
					o.Progress = nil
					flipByte(t, path)
				}
			}
		}, func(err error) bool { return errors.As(err, &mismatch) }, "write file system.squashfs into the bundle"},
		{"a minimum that is a hash", func(o *images.BundleOptions) { o.MinVersion = "08c378b" }, func(err error) bool { return errors.Is(err, bundle.ErrManifest) }, "use one such as v1.2.3"},
		{"a minimum beyond", func(o *images.BundleOptions) { o.MinVersion = "v9.0.0" }, func(error) bool { return true }, "is newer than what is built, " + fakeVersion},
		{"a key twice", func(o *images.BundleOptions) { o.Keys = append(o.Keys, bundleKey) }, func(error) bool { return true }, "is there twice"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "node.bundle")
		if err := os.WriteFile(path, []byte("earlier"), 0o600); err != nil {
			t.Fatal(err)
		}
		o := bundleOptions(boardNamed(t, "arm64-uefi"), fakeStore(t))
		c.spoil(&o)
		_, err := images.BuildBundle(path, o)
		if err == nil || !c.is(err) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "build bundle "+path+" for arm64-uefi: ") {
			t.Errorf("BuildBundle() with %s = %v; want %q", c.name, err, c.says)
		}
		if left := readDir(t, dir); len(left) != 1 || left["node.bundle"] != "earlier" {
			t.Errorf("BuildBundle() with %s left %q; want the earlier bundle alone", c.name, left)
		}
	}
	if _, err := images.BuildBundle(t.TempDir(), bundleOptions(boardNamed(t, "arm64-uefi"), fakeStore(t))); err == nil || !strings.Contains(err.Error(), "is no file") {
		t.Errorf("BuildBundle() = %v over a directory; want an error", err)
	}
}

// TestBundleManifest has the manifest that is returned be the one in the file.
func TestBundleManifest(t *testing.T) {
	built := buildBundle(t, bundleOptions(boardNamed(t, "rpi-3a-plus"), fakeStore(t)))
	m, files := readBundle(t, built.Path)
	if len(m.Files) != len(built.Manifest.Files) || len(files) != len(m.Files) {
		t.Errorf("%d files, %d in the manifest, %d in what is returned", len(files), len(m.Files), len(built.Manifest.Files))
	}
	for _, f := range built.Manifest.Files {
		if !slices.Contains(m.Files, f) {
			t.Errorf("the file has no %s with %s", f.Path, hex.EncodeToString(f.SHA256[:]))
		}
	}
}
