package images_test

import (
	"fmt"
	"os"
	"testing"

	"machined/board"
	"machined/images"
	"machined/images/parts"
	"machined/tools/testenv"
)

// TestReproducible builds twice: from stores at different places and of
// different age, to different places.
func TestReproducible(t *testing.T) {
	here, there := fakeStore(t), fakeStore(t)
	age(t, there)
	forEachBoard(t, func(t *testing.T, b board.Board) {
		first, second := build(t, fakeOptions(b, here)), build(t, fakeOptions(b, there))
		if first.SHA256 != second.SHA256 || first.Size != second.Size {
			t.Errorf("Build() = %s (%d bytes), then %s (%d bytes)", first.SHA256, first.Size, second.SHA256, second.Size)
		}
		compareOutputs(t, outputs(t, first.Path), outputs(t, second.Path))
		if sum, size, err := parts.Hash(first.Path); err != nil || sum != first.SHA256 || size != first.Size {
			t.Errorf("Build() = %s, %d bytes; the file has %s, %d bytes, %v", first.SHA256, first.Size, sum, size, err)
		}
	})
}

// TestInputsMatter changes one input after the other, and finds another image
// each time.
func TestInputsMatter(t *testing.T) {
	b := boardNamed(t, "rpi-3a-plus")
	seen := make(map[string]string)
	try := func(name string, edit func(*images.Options)) {
		o := fakeOptions(b, fakeStore(t))
		edit(&o)
		sum := build(t, o).SHA256
		if other, ok := seen[sum]; ok {
			t.Errorf("%s gives the same image as %s", name, other)
		}
		seen[sum] = name
	}
	try("nothing changed", func(*images.Options) {})
	try("another config", func(o *images.Options) { o.Config = []byte("machine:\n  hostname: node-2\n") })
	try("an empty config", func(o *images.Options) { o.Config = []byte{} })
	try("no config", func(o *images.Options) { o.Config = nil })
	try("another key", func(o *images.Options) { o.PKI["node.key"] = []byte("KEY") })
	try("the CA's key too", func(o *images.Options) { o.PKI["ca.key"] = []byte("key") })
	try("no PKI", func(o *images.Options) { o.PKI = nil })
	try("another version", func(o *images.Options) { o.Store.Index.Version = "v2" })
	try("another time", func(o *images.Options) { o.Store.Index.BuildTime += 1000 })
	try("another board", func(o *images.Options) { o.Board = boardNamed(t, "arm64-mbr") })
	for _, name := range []string{"kernel/rpi", "overlays/i2c-rtc.dtbo", "firmware/bootcode.bin"} {
		try("another "+name, func(o *images.Options) { changePart(t, o.Store, name) })
	}
}

// TestForeignPartsDoNotMatter has the image of one board depend on its own
// parts alone.
func TestForeignPartsDoNotMatter(t *testing.T) {
	b, store := boardNamed(t, "x86_64-uefi"), fakeStore(t)
	want := build(t, fakeOptions(b, store)).SHA256
	changePart(t, store, "kernel/rpi")
	if got := build(t, fakeOptions(b, store)).SHA256; got != want {
		t.Errorf("Build() = %s after a change of the Pi's kernel; want %s", got, want)
	}
}

// changePart gives a part other contents, and the index its new hash.
func changePart(t *testing.T, store *parts.Store, name string) {
	t.Helper()
	if err := os.WriteFile(store.Path(name), []byte("another "+name), 0o644); err != nil {
		t.Fatal(err)
	}
	for i, p := range store.Index.Parts {
		if p.Name != name {
			continue
		}
		var err error
		if store.Index.Parts[i].SHA256, store.Index.Parts[i].Size, err = parts.Hash(store.Path(name)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestProgress has the callback end at the total, and never go back.
func TestProgress(t *testing.T) {
	o := fakeOptions(boardNamed(t, "arm64-uefi"), fakeStore(t))
	var last, total int64
	o.Progress = func(done, all int64) {
		if done < last || done > all || total != 0 && all != total {
			t.Errorf("progress(%d, %d) after (%d, %d)", done, all, last, total)
		}
		last, total = done, all
	}
	build(t, o)
	if last != total || total == 0 {
		t.Errorf("the progress ended at %s; want all of it", fmt.Sprint(last, " of ", total))
	}
}

// TestRealStore builds each board's image twice from the parts that `make
// parts` collected.
func TestRealStore(t *testing.T) {
	const dir = "../build/parts"
	testenv.Need(t, dir)
	if testing.Short() {
		t.Skip("builds eight real images; left out by -short")
	}
	store := openStore(t, dir)
	forEachBoard(t, func(t *testing.T, b board.Board) {
		first, second := build(t, fakeOptions(b, store)), build(t, fakeOptions(b, store))
		compareOutputs(t, outputs(t, first.Path), outputs(t, second.Path))
		checkImage(t, first)
		checkSlots(t, first)
	})
}
