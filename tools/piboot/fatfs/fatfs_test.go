package fatfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"machined/images/fat32"
)

const mib = 1 << 20

type memory []byte

func (m memory) WriteAt(p []byte, off int64) (int, error) { return copy(m[off:], p), nil }

func makeVolume(t testing.TB, size int64, contents map[string][]byte) memory {
	t.Helper()
	var files []fat32.File
	for path, data := range contents {
		files = append(files, fat32.File{Path: path, Size: int64(len(data)), Open: func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(data)), nil
		}})
	}
	m := make(memory, size)
	if err := fat32.Write(m, size, files, fat32.Options{Label: "TEST", Time: time.Unix(1e9, 0)}); err != nil {
		t.Fatal(err)
	}
	return m
}

func open(t testing.TB, m memory) *FS {
	t.Helper()
	f, err := Open(bytes.NewReader(m), int64(len(m)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// testTree spans several clusters with its root directory and one of its files.
func testTree() map[string][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	tree := map[string][]byte{
		"config.txt":              []byte("os_prefix=A/\n"),
		"A/kernel8.img":           make([]byte, 2*mib+5),
		"A/overlays/README":       {},
		"A/日本-🙂 a long name.dtbo": []byte("unicode"),
	}
	for i := range tree["A/kernel8.img"] {
		tree["A/kernel8.img"][i] = byte(r.Uint32())
	}
	for i := range 60 {
		tree[fmt.Sprintf("a file with a long name, number %d", i)] = fmt.Append(nil, i)
	}
	return tree
}

func TestReadsWhatFat32Writes(t *testing.T) {
	for _, size := range []int64{64 * mib, 280 * mib} {
		tree := testTree()
		f := open(t, makeVolume(t, size, tree))
		var names []string
		for path, want := range tree {
			names = append(names, path)
			if got, err := fs.ReadFile(f, path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%q = %d bytes, %v; want %d", path, len(got), err, len(want))
			}
		}
		if err := fstest.TestFS(f, names...); err != nil {
			t.Error(err)
		}
	}
}

func TestNamesIgnoreCase(t *testing.T) {
	f := open(t, makeVolume(t, 34*mib, testTree()))
	for _, name := range []string{"CONFIG.TXT", "a/KERNEL8.img", "a/OVERLAYS/readme", "a/日本-🙂 A LONG NAME.DTBO", "AFILEW~1"} {
		if _, err := fs.Stat(f, name); err != nil {
			t.Errorf("Stat(%q): %v", name, err)
		}
	}
	for _, name := range []string{"config.txt/x", "none", "A/none", "A/kernel8.img/x"} {
		if _, err := f.Open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Open(%q) = %v; want %v", name, err, fs.ErrNotExist)
		}
	}
	if info, err := fs.Stat(f, "config.txt"); err != nil || info.Size() != 13 || !info.ModTime().Equal(time.Unix(1e9, 0)) {
		t.Errorf("Stat = %v, %v; want 13 bytes of %v", info, err, time.Unix(1e9, 0))
	}
}

// The damage points at the structures of a small volume from testTree, whose
// clusters are 512 bytes.
func TestDamagedVolumes(t *testing.T) {
	le := binary.LittleEndian
	fat := func(m memory, cluster int) []byte { return m[32*512+4*cluster:] }
	tests := []struct {
		name   string
		damage func(m memory)
		open   bool // fails in Open already
		path   string
	}{
		{"no signature", func(m memory) { m[510] = 0 }, true, ""},
		{"sector size", func(m memory) { m[12] = 3 }, true, ""},
		{"no clusters", func(m memory) { m[13] = 0 }, true, ""},
		{"too few clusters", func(m memory) { m[13] = 64 }, true, ""},
		{"FAT too short", func(m memory) { le.PutUint32(m[36:], 8) }, true, ""},
		{"FAT16", func(m memory) { le.PutUint16(m[22:], 8) }, true, ""},
		{"larger than the disk", func(m memory) { le.PutUint32(m[32:], 1<<30) }, true, ""},
		{"root cluster", func(m memory) { le.PutUint32(m[44:], 0) }, true, ""},
		{"root loops", func(m memory) { le.PutUint32(fat(m, 3), 2) }, false, "config.txt"},
		{"root leaves the volume", func(m memory) { le.PutUint32(fat(m, 3), 0x0ffffff0) }, false, "config.txt"},
		{"file loops", func(m memory) { le.PutUint32(fat(m, 2000), 1999) }, false, "A/kernel8.img"},
		{"file cut short", func(m memory) { le.PutUint32(fat(m, 2000), endOfChain) }, false, "A/kernel8.img"},
		{"file goes on", func(m memory) {
			for c := 2000; c < 60000; c++ {
				le.PutUint32(fat(m, c), uint32(c+1))
			}
		}, false, "A/kernel8.img"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := makeVolume(t, 34*mib, testTree())
			tt.damage(m)
			f, err := Open(bytes.NewReader(m), int64(len(m)))
			if err == nil && !tt.open {
				_, err = fs.ReadFile(f, tt.path)
			}
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("error = %v; want %v", err, ErrDamaged)
			}
		})
	}
}

func TestTruncatedImage(t *testing.T) {
	m := makeVolume(t, 64*mib, testTree())
	if _, err := Open(bytes.NewReader(m[:100]), 100); err == nil {
		t.Error("Open of 100 bytes worked")
	}
	f, err := Open(bytes.NewReader(m[:2*mib]), int64(len(m)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fs.ReadFile(f, "A/kernel8.img"); !errors.Is(err, io.EOF) {
		t.Errorf("reading beyond the image = %v; want %v", err, io.EOF)
	}
}

// A directory that contains itself must not be walked for ever.
func TestDirectoryInItself(t *testing.T) {
	m := makeVolume(t, 64*mib, map[string][]byte{"D/x": nil})
	root := m[32*512+2*int(binary.LittleEndian.Uint32(m[36:]))*512:]
	d := root[32:64] // after the label
	if !strings.HasPrefix(string(d), "D ") {
		t.Fatalf("the first entry is %q", d)
	}
	binary.LittleEndian.PutUint16(d[26:], 2)
	err := fs.WalkDir(open(t, m), ".", func(_ string, _ fs.DirEntry, err error) error { return err })
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("WalkDir = %v; want %v", err, ErrDamaged)
	}
}

// A large file must cost little more than copying it.
func BenchmarkReadKernel(b *testing.B) {
	m := makeVolume(b, 128*mib, map[string][]byte{"kernel8.img": make([]byte, 46*mib)})
	b.SetBytes(46 * mib)
	for b.Loop() {
		if _, err := fs.ReadFile(open(b, m), "kernel8.img"); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzVolume overwrites parts of a sound volume and walks what is left.
func FuzzVolume(f *testing.F) {
	sound := makeVolume(f, 34*mib, map[string][]byte{
		"A/B/a long name of a file": []byte("x"), "A/kernel": make([]byte, 5000), "config.txt": []byte("y"),
	})
	data := uint32(32*512) + 2*binary.LittleEndian.Uint32(sound[36:])*512
	f.Add(uint32(11), []byte{0, 4}, uint32(0), []byte{})
	f.Add(uint32(32*512+8), []byte{2, 0, 0, 0}, data, []byte("AAAA"))
	f.Add(data+32, bytes.Repeat([]byte{0x41}, 64), uint32(44), []byte{3})
	f.Fuzz(func(t *testing.T, at1 uint32, with1 []byte, at2 uint32, with2 []byte) {
		// Patches over a shared volume, so that a run does not copy it.
		p := &patched{base: sound, at: [2]int64{int64(at1 % (data + 8192)), int64(at2 % (data + 8192))}, with: [2][]byte{with1, with2}}
		v, err := Open(p, int64(len(sound)))
		if err != nil {
			return
		}
		seen := 0
		stop := errors.New("enough")
		fs.WalkDir(v, ".", func(path string, e fs.DirEntry, err error) error {
			if seen++; seen > 200 {
				return stop // as many loops as entries are fine, if slow
			}
			if err != nil || e.IsDir() {
				return nil
			}
			if info, err := e.Info(); err == nil && info.Size() < mib {
				fs.ReadFile(v, path)
			}
			return nil
		})
	})
}

type patched struct {
	base memory
	at   [2]int64
	with [2][]byte
}

func (p *patched) ReadAt(b []byte, off int64) (int, error) {
	n, err := bytes.NewReader(p.base).ReadAt(b, off)
	for i, with := range p.with {
		for j, c := range with {
			if at := p.at[i] + int64(j) - off; at >= 0 && at < int64(n) {
				b[at] = c
			}
		}
	}
	return n, err
}
