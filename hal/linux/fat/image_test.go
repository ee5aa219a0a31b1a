package fat

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"machined/images/fat32"
	"machined/tools/piboot/fatfs"
	"machined/tools/testenv"
)

// tool returns the name of a program that has to be installed in CI.
func tool(t testing.TB, name string) string {
	t.Helper()
	testenv.Need(t, name)
	return name
}

func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(tool(t, name), args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// save writes a disk to a sparse file.
func save(t testing.TB, d *ramDisk) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(d.size); err != nil {
		t.Fatal(err)
	}
	numbers := slices.Sorted(maps.Keys(d.pages))
	for i := 0; i < len(numbers); {
		first, b := numbers[i], []byte(nil)
		for ; i < len(numbers) && numbers[i] == first+int64(len(b)/pageSize); i++ {
			b = append(b, d.pages[numbers[i]]...)
		}
		if _, err := f.WriteAt(b[:min(int64(len(b)), d.size-first*pageSize)], first*pageSize); err != nil {
			t.Fatal(err)
		}
	}
	return f.Name()
}

func load(t testing.TB, path string) *ramDisk {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d, zeros := newRAMDisk(int64(len(b))), make([]byte, pageSize)
	for at := 0; at < len(b); at += pageSize {
		if p := b[at:min(at+pageSize, len(b))]; !bytes.Equal(p, zeros[:len(p)]) {
			d.apply(int64(at), p)
		}
	}
	return d
}

// checkFsck requires that fsck.fat has nothing to say but its summary.
func checkFsck(t testing.TB, d *ramDisk) {
	t.Helper()
	path := save(t, d)
	out, err := exec.Command(tool(t, "fsck.fat"), "-n", path).CombinedOutput()
	os.Remove(path)
	for _, l := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if !strings.HasPrefix(l, "fsck.fat ") && !strings.Contains(l, " files, ") {
			t.Errorf("fsck.fat says %q", l)
		}
	}
	if err != nil {
		t.Errorf("fsck.fat: %v\n%s", err, out)
	}
}

// tree is the files of a volume by path.
type tree map[string][]byte

func randomBytes(n int, seed uint64) []byte {
	b, r := make([]byte, n), rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// bootTree has a slot that must stay, and one that may be harmed.
func bootTree() tree {
	files := tree{"config.txt": []byte("os_prefix=A/\n"), "B/empty": {}}
	for i, slot := range []string{"A", "B"} {
		files[slot+"/kernel8.img"] = randomBytes(300_000+i, uint64(i))
		files[slot+"/a long name of a file, with blanks.txt"] = randomBytes(2000, uint64(10+i))
		for n := range 20 {
			files[fmt.Sprintf("%s/overlays/an-overlay-%d.dtbo", slot, n)] = randomBytes(50*n, uint64(100*i+n))
		}
	}
	return files
}

// makeVolume writes a volume with images/fat32.
func makeVolume(t testing.TB, size int64, files tree) *ramDisk {
	t.Helper()
	var list []fat32.File
	for path, data := range files {
		list = append(list, fat32.File{Path: path, Size: int64(len(data)), Open: func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(data)), nil
		}})
	}
	d := newRAMDisk(size)
	if err := fat32.Write(fill{d}, size, list, fat32.Options{Label: "BOOT", Time: time.Unix(1e9, 0)}); err != nil {
		t.Fatal(err)
	}
	return d
}

// makeByTools writes a volume with mkfs.fat and mtools.
func makeByTools(t testing.TB, size int64, files tree, args ...string) *ramDisk {
	t.Helper()
	dir := t.TempDir()
	image := filepath.Join(dir, "image")
	f, err := os.Create(image)
	if err == nil {
		err = f.Truncate(size)
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	run(t, "mkfs.fat", append(args, "-F", "32", "-n", "BOOT", image)...)
	from := filepath.Join(dir, "files")
	for path, data := range files {
		path = filepath.Join(from, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	top, err := filepath.Glob(from + "/*")
	if err != nil {
		t.Fatal(err)
	}
	run(t, "mcopy", append(append([]string{"-s", "-i", image}, top...), "::")...)
	return load(t, image)
}

// checkTree reads a volume by a reader that knows nothing of this package, and
// requires the files of want to be whole, those excepted that are named.
func checkTree(t testing.TB, d *ramDisk, want tree, except ...string) {
	t.Helper()
	v, err := fatfs.Open(d, d.size)
	if err != nil {
		t.Fatal(err)
	}
	for path, data := range want {
		if slices.Contains(except, path) {
			continue
		}
		if have, err := fs.ReadFile(v, path); err != nil || !bytes.Equal(have, data) {
			t.Errorf("%s has %d bytes (%v), or others; want its %d", path, len(have), err, len(data))
		}
	}
	if except == nil {
		return // it may be damaged elsewhere
	}
	err = fs.WalkDir(v, ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			_, err = fs.ReadFile(v, path)
		}
		return err
	})
	if err != nil {
		t.Errorf("read the volume: %v", err)
	}
}

// slot is the files of one slot.
func (f tree) slot(prefix string) tree {
	files := tree{}
	for path, data := range f {
		if strings.HasPrefix(path, prefix) {
			files[path] = data
		}
	}
	return files
}

// image is a volume to be damaged.
type image struct {
	*ramDisk
	v *volume
}

func open(t testing.TB, d *ramDisk) image {
	t.Helper()
	v, err := readVolume(d, d.size)
	if err != nil {
		t.Fatal(err)
	}
	return image{d, v}
}

func (m image) markDirty() { m.poke(bootState, m.bytes(bootState, 1)[0]|stateDirty) }

func (m image) poke(at int64, b ...byte) { m.apply(at, b) }

func (m image) entry(cluster uint32) uint32 {
	return binary.LittleEndian.Uint32(m.bytes(m.v.fatAt+int64(cluster)*4, 4))
}

// set changes an entry of the FATs numbered, or of both.
func (m image) set(cluster, value uint32, copies ...int) {
	if copies == nil {
		copies = []int{0, 1}
	}
	for _, n := range copies {
		m.apply(m.v.copyAt(n)+int64(cluster)*4, binary.LittleEndian.AppendUint32(nil, value))
	}
}

// chain returns the clusters of a chain.
func (m image) chain(first uint32) []uint32 {
	var list []uint32
	for at := first; m.v.valid(at); at = m.entry(at) & entryMask {
		list = append(list, at)
	}
	return list
}

// find returns the place of a short entry by its path of short names.
func (m image) find(t testing.TB, path string) (int64, dirent) {
	t.Helper()
	at, d, dir := int64(0), dirent(nil), m.v.root
	for _, name := range strings.Split(path, "/") {
		at = 0
		for _, c := range m.chain(dir) {
			for off := m.v.clusterAt(c); off < m.v.clusterAt(c)+m.v.clusterBytes && at == 0; off += direntBytes {
				e := dirent(m.bytes(off, direntBytes))
				if !e.free() && !e.long() && !e.label() && strings.ToUpper(e.shortName()) == name {
					at, d, dir = off, e, e.first()
				}
			}
		}
		if at == 0 {
			t.Fatalf("%s is not there", path)
		}
	}
	return at, d
}

// freeEntry returns the place of the first free entry in the last cluster of a directory.
func (m image) freeEntry(t testing.TB, path string) int64 {
	_, d := m.find(t, path)
	chain := m.chain(d.first())
	last := m.v.clusterAt(chain[len(chain)-1])
	for at := last; at < last+m.v.clusterBytes; at += direntBytes {
		if dirent(m.bytes(at, direntBytes)).free() {
			return at
		}
	}
	t.Fatalf("%s is full", path)
	return 0
}

// free returns a cluster that is free.
func (m image) free(n uint32) uint32 {
	for c := m.v.clusters; ; c-- {
		if m.entry(c) == 0 {
			if n == 0 {
				return c
			}
			n--
		}
	}
}
