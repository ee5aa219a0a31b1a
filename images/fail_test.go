package images_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"machined/board"
	"machined/images"
	"machined/images/parts"
)

// TestMissingOrDamagedPart takes away or changes each part that an image
// needs. The error names it, and nothing is left but what was there before.
func TestMissingOrDamagedPart(t *testing.T) {
	forEachBoard(t, func(t *testing.T, b board.Board) {
		for _, name := range partsOf(b) {
			if name == "small.ext4.gz" || strings.HasPrefix(name, "machined/") {
				continue // packed inside of others
			}
			var missing *parts.MissingError
			var mismatch *parts.MismatchError
			err := buildFails(t, b, func(store *parts.Store) { remove(t, store.Path(name)) })
			if !errors.As(err, &missing) || missing.Part != name || !strings.Contains(err.Error(), "part "+name+" is missing") {
				t.Errorf("Build() without %s = %v; want an error that names it", name, err)
			}
			err = buildFails(t, b, func(store *parts.Store) { flipByte(t, store.Path(name)) })
			if !errors.As(err, &mismatch) || mismatch.Part != name || !strings.Contains(err.Error(), "part "+name+" is damaged") {
				t.Errorf("Build() with another %s = %v; want an error that names it", name, err)
			}
		}
	})
}

// TestPartNotInIndex takes parts out of the index. Overlays alone are there to
// be chosen from; without one that nothing asks for the image is whole.
func TestPartNotInIndex(t *testing.T) {
	b := boardNamed(t, "rpi-3a-plus")
	for _, name := range partsOf(b) {
		if name == "small.ext4.gz" || strings.HasPrefix(name, "machined/") ||
			strings.HasPrefix(name, "overlays/") && name != "overlays/disable-bt.dtbo" {
			continue
		}
		var missing *parts.MissingError
		err := buildFails(t, b, func(store *parts.Store) {
			store.Index.Parts = slices.DeleteFunc(store.Index.Parts, func(p parts.Part) bool { return p.Name == name })
		})
		if !errors.As(err, &missing) || missing.Part != name {
			t.Errorf("Build() without %s in the index = %v; want an error that names it", name, err)
		}
	}
}

// TestPartChangesMeanwhile damages a part after it was checked and before it
// is written, which is half-way through the image.
func TestPartChangesMeanwhile(t *testing.T) {
	b := boardNamed(t, "arm64-uefi")
	for _, c := range []struct {
		name   string
		damage func(path string)
		says   string
	}{
		{"other bytes", func(path string) { flipByte(t, path) }, "part system/arm64 is damaged"},
		{"cut short", func(path string) { truncate(t, path) }, "A/system.squashfs"},
		{"removed", func(path string) { remove(t, path) }, "part system/arm64"},
	} {
		err := buildFailsMidway(t, b, c.damage)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: Build() = %v; want %q in it", c.name, err, c.says)
		}
	}
}

func buildFailsMidway(t *testing.T, b board.Board, damage func(path string)) error {
	t.Helper()
	store := fakeStore(t)
	o := fakeOptions(b, store)
	var once bool
	o.Progress = func(int64, int64) {
		if !once {
			once = true
			damage(store.Path("system/arm64"))
		}
	}
	return failingBuild(t, o)
}

// buildFails builds from a store that spoil has spoilt.
func buildFails(t *testing.T, b board.Board, spoil func(*parts.Store)) error {
	t.Helper()
	store := fakeStore(t)
	spoil(store)
	return failingBuild(t, fakeOptions(b, store))
}

// failingBuild builds to an empty directory, and over an earlier image, and
// sees that neither changes.
func failingBuild(t *testing.T, o images.Options) error {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "node.img")
	earlier := map[string]string{"node.img": "image", "node.img.manifest.json": "manifest", "node.img.sbom.cdx.json": "bill"}
	progress := o.Progress
	_, err := images.Build(path, o)
	if left := readDir(t, dir); err == nil || len(left) != 0 {
		t.Errorf("Build() = %v and left %q behind; want an error and nothing", err, slices.Collect(maps.Keys(left)))
	}
	for name, text := range earlier {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o.Progress = progress
	if _, err := images.Build(path, o); err == nil {
		t.Error("Build() = nil the second time; want an error")
	}
	if left := readDir(t, dir); !sameMaps(left, earlier) {
		t.Errorf("Build() left %q and changed an earlier image; want it untouched", slices.Collect(maps.Keys(left)))
	}
	return err
}

// TestFullDisk runs out of space half-way.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t)
	o := fakeOptions(boardNamed(t, "x86_64-uefi"), fakeStore(t))
	_, err := images.Build(filepath.Join(dir, "node.img"), o)
	if left := readDir(t, dir); err == nil || len(left) != 0 {
		t.Errorf("Build() = %v and left %q behind; want an error and nothing", err, slices.Collect(maps.Keys(left)))
	}
	if err != nil && !strings.Contains(err.Error(), "no space left") {
		t.Errorf("Build() = %v; want that there is no space left", err)
	}
}

// TestReplace builds over an earlier image.
func TestReplace(t *testing.T) {
	store := fakeStore(t)
	o := fakeOptions(boardNamed(t, "arm64-mbr"), store)
	want := outputs(t, build(t, o).Path)
	dir := t.TempDir()
	path := filepath.Join(dir, "node.img")
	o.Config = nil
	if _, err := images.Build(path, o); err != nil {
		t.Fatal(err)
	}
	if _, err := images.Build(path, fakeOptions(o.Board, store)); err != nil {
		t.Fatal(err)
	}
	compareOutputs(t, outputs(t, path), want)
	if files, err := os.ReadDir(dir); err != nil || len(files) != 3 {
		t.Errorf("the directory holds %v, %v; want the three files", files, err)
	}
}

// TestRefusesOutput does not write where a file cannot be put in place, and
// leaves alone what is there.
func TestRefusesOutput(t *testing.T) {
	o := fakeOptions(boardNamed(t, "arm64-mbr"), fakeStore(t))
	for _, name := range []string{"node.img", "node.img.manifest.json", "node.img.sbom.cdx.json"} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := images.Build(filepath.Join(dir, "node.img"), o)
		if err == nil || !strings.Contains(err.Error(), name+" exists and is no file") {
			t.Errorf("Build() = %v with a directory %s; want an error that names it", err, name)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
			t.Errorf("the directory holds %v, %v; want %s alone", files, err, name)
		}
	}
	if runtime.GOOS == "linux" {
		if _, err := images.Build("/dev/null", o); err == nil || !strings.Contains(err.Error(), "/dev/null exists and is no file") {
			t.Errorf("Build(/dev/null) = %v; want an error that names it", err)
		}
	}
	if _, err := images.Build(filepath.Join(t.TempDir(), "none", "node.img"), o); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("Build() = %v without the directory; want an error", err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, path string) {
	t.Helper()
	if err := os.Truncate(path, 10); err != nil {
		t.Fatal(err)
	}
}

func flipByte(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// readDir returns the files of a directory with their contents.
func readDir(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			b = fmt.Append(nil, err)
		}
		files[e.Name()] = string(b)
	}
	return files
}
