package conformance

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"machined/hal"
)

// bootData is the content of a file of a version.
func bootData(version, path string) []byte {
	return bytes.Repeat([]byte(version+" "+path+"\n"), 50)
}

// content is what a slot of that version is to hold.
func (r BootloaderRig) content(version string) hal.SlotContent {
	c := hal.SlotContent{Version: version, Board: "test", Arguments: "console=ttyS0 quiet"}
	for _, path := range append([]string{"system.squashfs"}, r.Files...) {
		data := bootData(version, path)
		c.Files = append(c.Files, hal.SlotFile{Path: path, Size: int64(len(data)), SHA256: sha256.Sum256(data)})
	}
	return c
}

// stageContent has content that is refused before anything is touched.
func stageContent(t *testing.T, r BootloaderRig) {
	first := func(path string) func(*hal.SlotContent) {
		return func(c *hal.SlotContent) { c.Files[0].Path = path }
	}
	for _, c := range []struct {
		name   string
		change func(c *hal.SlotContent)
		want   error
	}{
		{"no version", func(c *hal.SlotContent) { c.Version = "" }, hal.ErrInvalid},
		{"a version of two lines", func(c *hal.SlotContent) { c.Version = "1\n2" }, hal.ErrInvalid},
		{"a version with a quote", func(c *hal.SlotContent) { c.Version = `1"` }, hal.ErrInvalid},
		{"no board", func(c *hal.SlotContent) { c.Board = "" }, hal.ErrInvalid},
		{"no arguments", func(c *hal.SlotContent) { c.Arguments = "" }, hal.ErrInvalid},
		{"arguments of two lines", func(c *hal.SlotContent) { c.Arguments = "a\nlinux /x" }, hal.ErrInvalid},
		{"arguments that name a slot", func(c *hal.SlotContent) { c.Arguments = "a machined.slot=A" }, hal.ErrInvalid},
		{"no files", func(c *hal.SlotContent) { c.Files = nil }, hal.ErrInvalid},
		{"a file twice", func(c *hal.SlotContent) { c.Files = append(c.Files, c.Files[0]) }, hal.ErrInvalid},
		{"a file of no size", func(c *hal.SlotContent) { c.Files[0].Size = -1 }, hal.ErrInvalid},
		{"its own manifest", first("manifest.json"), hal.ErrInvalid},
		{"its own manifest, in capitals", first("MANIFEST.JSON"), hal.ErrInvalid},
		{"its own command line", first("cmdline.txt"), hal.ErrInvalid},
		{"a path that leaves the slot", first("../config.txt"), hal.ErrInvalid},
		{"an absolute path", first("/config.txt"), hal.ErrInvalid},
		{"a path of FAT's", first(`..\config.txt`), hal.ErrInvalid},
		{"a path that FAT cannot hold", first("a:b"), hal.ErrInvalid},
		{"more than there is room for", func(c *hal.SlotContent) { c.Files[0].Size = 1 << 50 }, hal.ErrNoSpace},
		{"sizes whose sum overflows", func(c *hal.SlotContent) { c.Files[0].Size, c.Files[1].Size = 1<<63-1, 1<<63-1 }, hal.ErrNoSpace},
	} {
		content := r.content("v2")
		c.change(&content)
		w, err := r.Bootloader.Stage("A", content)
		expect(t, "Stage with "+c.name, err, c.want)
		if err == nil {
			must(t, "Abort", w.Abort())
		}
	}
	if st := r.want(t, "A", "A", "", hal.SlotGood, hal.SlotGood); st.Slots[1].Version != "v1" {
		t.Errorf("after refusals, slot B has the version %q; want v1", st.Slots[1].Version)
	}
}

// stageWriter holds the writer to the content.
func stageWriter(t *testing.T, r BootloaderRig) {
	content := r.content("v2")
	w, err := r.Bootloader.Stage("A", content)
	must(t, "Stage", err)
	r.want(t, "A", "A", "", hal.SlotGood, hal.SlotEmpty)
	_, err = w.Create("unlisted")
	expect(t, "Create of what is not listed", err, hal.ErrInvalid)
	last := content.Files[len(content.Files)-1].Path
	writeSlotFile(t, w, last, bootData("v2", last)) // in any order
	_, err = w.Create(last)
	expect(t, "Create of a file twice", err, hal.ErrInvalid)

	first := content.Files[0]
	f, err := w.Create(first.Path)
	must(t, "Create", err)
	_, err = w.Create(content.Files[1].Path)
	expect(t, "Create of a file before the last is closed", err, hal.ErrInvalid)
	_, err = f.Write(make([]byte, first.Size+1))
	expect(t, "Write of more than is listed", err, hal.ErrInvalid)
	_, err = f.Write([]byte("x"))
	must(t, "Write", err)
	expect(t, "Close of a file that is too short", f.Close(), hal.ErrInvalid)
	_, err = f.Write([]byte("x"))
	expect(t, "Write after Close", err, hal.ErrInvalid)
	expect(t, "Finish without all files", w.Finish(), hal.ErrInvalid)
	must(t, "Abort after Finish", w.Abort())
	_, err = w.Create(content.Files[1].Path)
	expect(t, "Create after Finish", err, hal.ErrInvalid)
	r.want(t, "A", "A", "", hal.SlotGood, hal.SlotEmpty)
	r.boot(t, "", "A")
	r.install(t, "A", "v2")
}

// stageDamaged writes something else than the content says, of the same size.
func stageDamaged(t *testing.T, r BootloaderRig) {
	content := r.content("v2")
	w, err := r.Bootloader.Stage("A", content)
	must(t, "Stage", err)
	for i, f := range content.Files {
		data := bootData("v2", f.Path)
		if i == len(content.Files)-1 {
			data[len(data)-1] ^= 1
		}
		writeSlotFile(t, w, f.Path, data)
	}
	expect(t, "Finish with a wrong file", w.Finish(), hal.ErrReadBack)
	r.want(t, "A", "A", "", hal.SlotGood, hal.SlotEmpty)
	_, err = r.Bootloader.Try("A", "B")
	expect(t, "Try of it", err, hal.ErrInvalid)
	r.boot(t, "", "A")
}

func stageAbort(t *testing.T, r BootloaderRig) {
	content := r.content("v2")
	w, err := r.Bootloader.Stage("A", content)
	must(t, "Stage", err)
	_, err = w.Create(content.Files[0].Path)
	must(t, "Create", err)
	must(t, "Abort", w.Abort()) // with a file open
	must(t, "Abort, once more", w.Abort())
	expect(t, "Finish after Abort", w.Finish(), hal.ErrInvalid)
	r.want(t, "A", "A", "", hal.SlotGood, hal.SlotEmpty)
	r.boot(t, "", "A")
	r.install(t, "A", "v2")
	r.want(t, "A", "A", "", hal.SlotGood, hal.SlotStaged)
}
