package fat32

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

const mib = 1 << 20

// memory is an io.WriterAt over a zeroed buffer that counts its writes.
type memory struct {
	data   []byte
	writes int
}

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	m.writes++
	if off < 0 || off+int64(len(p)) > int64(len(m.data)) {
		return 0, errors.New("write beyond the volume")
	}
	return copy(m.data[off:], p), nil
}

func text(path, contents string) File {
	return File{Path: path, Size: int64(len(contents)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(contents)), nil
	}}
}

// pattern is a file of size bytes that do not repeat within a cluster.
func pattern(path string, size int, seed uint64) File {
	return text(path, string(randomBytes(size, seed)))
}

func randomBytes(size int, seed uint64) []byte {
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1})
	r.Read(b)
	return b
}

func testOptions() Options {
	return Options{
		Label:         "boot",
		Serial:        0x1234abcd,
		Time:          time.Date(2024, 2, 29, 12, 34, 56, 0, time.UTC),
		HiddenSectors: 2048,
	}
}

func smallTree() []File {
	return []File{
		text("config.txt", "os_prefix=A/\n"),
		text("BOOTCODE.BIN", "not really"),
		pattern("A/kernel8.img", 3*mib+17, 1),
		text("A/overlays/README", ""),
		pattern("A/overlays/a long name, with+odd=[signs].dtbo", 700, 2),
		text("A/überläufe-日本-🙂.txt", "unicode"),
		text("B/", ""),
	}
}

// goldenHash changes when the bytes of a volume change: then every image built
// before becomes irreproducible, so change it on purpose alone.
const goldenHash = "269b137c9445aebe54f4764c2d236b25f7b05236403444ea84e9e3fa67018fe4"

func TestWriteIsDeterministic(t *testing.T) {
	files := smallTree()
	for range 5 {
		m := &memory{data: make([]byte, 64*mib)}
		if err := Write(m, int64(len(m.data)), files, testOptions()); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(m.data)
		if got := hex.EncodeToString(sum[:]); got != goldenHash {
			t.Fatalf("hash of the volume = %s; want %s", got, goldenHash)
		}
		rand.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	}
}

func TestWriteRefuses(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name   string
		size   int64
		files  []File
		label  string
		want   error
		wants  string // in the message
		writes bool   // may have written something by then
	}{
		{name: "odd size", size: 64*mib + 1, want: ErrSize, wants: "multiple of 512"},
		{name: "too small", size: 32 * mib, want: ErrSize, wants: "33 MiB"},
		{name: "too large", size: 4 << 40, want: ErrSize, wants: "2 TiB"},
		{name: "too full", files: []File{pattern("big", 60*mib, 1), {Path: "more", Size: 10 * mib}}, want: ErrFull, wants: "they need 73400832 bytes"},
		{name: "file too big", files: []File{{Path: "big", Size: 1 << 32}}, want: ErrSize, wants: `"big"`},
		{name: "directory with a size", files: []File{{Path: "d/", Size: 1}}, want: ErrSize, wants: `"d/"`},
		{name: "duplicate", files: []File{text("A/x", ""), text("A/X", "")}, want: ErrDuplicate, wants: `"A/X" and "A/x"`},
		{name: "same twice", files: []File{text("x", ""), text("x", "")}, want: ErrDuplicate, wants: `"x"`},
		{name: "directory in two spellings", files: []File{text("A/x", ""), text("a/y", "")}, want: ErrDuplicate, wants: `"A" and "a"`},
		{name: "unicode case", files: []File{text("Ä", ""), text("ä", "")}, want: ErrDuplicate, wants: `"ä"`},
		{name: "file and directory", files: []File{text("x", ""), text("x/y", "")}, want: ErrDuplicate, wants: `"x/y"`},
		{name: "file and empty directory", files: []File{text("x", ""), text("x/", "")}, want: ErrDuplicate, wants: `"x"`},
		{name: "absolute", files: []File{text("/x", "")}, want: ErrName, wants: `"/x"`},
		{name: "empty", files: []File{text("", "")}, want: ErrName},
		{name: "climbing", files: []File{text("a/../b", "")}, want: ErrName, wants: `"a/../b"`},
		{name: "colon", files: []File{text("a:b", "")}, want: ErrName, wants: "':'"},
		{name: "control", files: []File{text("a\nb", "")}, want: ErrName},
		{name: "backslash", files: []File{text(`a\b`, "")}, want: ErrName},
		{name: "trailing dot", files: []File{text("a.", "")}, want: ErrName},
		{name: "trailing space", files: []File{text("a ", "")}, want: ErrName},
		{name: "not UTF-8", files: []File{text("a\xff", "")}, want: ErrName},
		{name: "too long a name", files: []File{text(strings.Repeat("x", 256), "")}, want: ErrName, wants: "256"},
		{name: "too long a label", label: "TWELVE CHARS", want: ErrName},
		{name: "label with a dot", label: "a.b", want: ErrName},
		{name: "label beyond ASCII", label: "büro", want: ErrName},
		{name: "short file", files: []File{{Path: "s", Size: 5, Open: text("", "four").Open}}, want: ErrContents, wants: `"s" ends after 4 of 5`, writes: true},
		{name: "long file", files: []File{{Path: "l", Size: 3, Open: text("", "four").Open}}, want: ErrContents, wants: `"l" has more than the 3`, writes: true},
		{name: "no Open", files: []File{{Path: "n", Size: 3}}, want: ErrContents, wants: `"n"`, writes: true},
		{name: "Open fails", files: []File{{Path: "o", Size: 3, Open: func() (io.ReadCloser, error) { return nil, broken }}}, want: broken, wants: `"o"`, writes: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			size := tt.size
			if size == 0 {
				size = 64 * mib
			}
			m := &memory{}
			if size <= 64*mib {
				m.data = make([]byte, size)
			}
			opts := testOptions()
			opts.Label = tt.label
			err := Write(m, size, tt.files, opts)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.wants) {
				t.Errorf("Write() = %v; want %v with %q", err, tt.want, tt.wants)
			}
			if m.writes > 0 && !tt.writes {
				t.Errorf("Write() wrote %d times before it refused", m.writes)
			}
			if m.writes > 0 && !bytes.Equal(m.data[:sectorBytes], make([]byte, sectorBytes)) {
				t.Error("a failed Write left a boot sector")
			}
		})
	}
}

// A write error must come back, whichever write it is.
func TestWriteReportsWriteErrors(t *testing.T) {
	full := errors.New("no space left")
	for failAt := 1; ; failAt++ {
		w := &failingWriter{failAt: failAt, err: full}
		err := Write(w, 64*mib, smallTree(), testOptions())
		if err == nil {
			if failAt < 10 {
				t.Errorf("only %d writes were seen", failAt-1)
			}
			return
		}
		if !errors.Is(err, full) {
			t.Fatalf("write %d fails: Write() = %v; want %v", failAt, err, full)
		}
	}
}

type failingWriter struct {
	failAt, count int
	err           error
}

func (f *failingWriter) WriteAt(p []byte, off int64) (int, error) {
	if f.count++; f.count == f.failAt {
		return 0, f.err
	}
	return len(p), nil
}

func TestMinSize(t *testing.T) {
	tests := []struct {
		name  string
		files []File
		spare int64
	}{
		{"nothing", nil, 0},
		{"small", smallTree(), 0},
		{"kernel", []File{{Path: "k", Size: 46 * mib}}, 0},
		{"two slots", []File{{Path: "A/k", Size: 80 * mib}, {Path: "B/k", Size: 80 * mib}}, 16 * mib},
		{"spare alone", nil, 700 * mib},
		{"many small files", manyFiles(5000), 20 * mib},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			size, err := MinSize(tt.files, tt.spare)
			if err != nil || size%mib != 0 {
				t.Fatalf("MinSize() = %d, %v; want a multiple of 1 MiB", size, err)
			}
			if !fits(t, size, tt.files, tt.spare) {
				t.Errorf("MinSize() = %d; but that is too small", size)
			}
			if size > 35*mib && fits(t, size-mib, tt.files, tt.spare) {
				t.Errorf("MinSize() = %d; but 1 MiB less would do", size)
			}
		})
	}
	if _, err := MinSize([]File{text("a:b", "")}, 0); !errors.Is(err, ErrName) {
		t.Errorf("MinSize with a bad name = %v; want %v", err, ErrName)
	}
	if _, err := MinSize(nil, 3<<40); !errors.Is(err, ErrSize) {
		t.Errorf("MinSize of 3 TiB = %v; want %v", err, ErrSize)
	}
}

func fits(t *testing.T, size int64, files []File, spare int64) bool {
	t.Helper()
	root, err := buildTree(files)
	if err != nil {
		t.Fatal(err)
	}
	geo, err := chooseGeometry(size)
	if err != nil {
		return false
	}
	return root.clustersBelow(geo.clusterBytes())*geo.clusterBytes()+spare <= int64(geo.clusters)*geo.clusterBytes()
}

func manyFiles(n int) []File {
	var files []File
	for i := range n {
		files = append(files, text(strings.Repeat("n", 20)+string(rune('a'+i%26))+strings.Repeat("x", i/26), ""))
	}
	return slices.Clip(files)
}

func TestGeometry(t *testing.T) {
	tests := []struct {
		size       int64
		perCluster int64
	}{
		{33 * mib, 1}, {64 * mib, 1}, {66 * mib, 2}, {256 * mib, 4},
		{264 * mib, 8}, {8 << 30, 8}, {9 << 30, 16}, {17 << 30, 32}, {64 << 30, 64}, {2<<40 - 512, 64},
	}
	for _, tt := range tests {
		g, err := chooseGeometry(tt.size)
		if err != nil || g.sectorsPerCluster != tt.perCluster {
			t.Errorf("chooseGeometry(%d) = %d sectors a cluster, %v; want %d", tt.size, g.sectorsPerCluster, err, tt.perCluster)
		}
		if end := g.clusterOffset(g.clusters + 2); end > tt.size {
			t.Errorf("chooseGeometry(%d): the last cluster ends at %d", tt.size, end)
		}
		if int64(g.clusters+2)*4 > g.sectorsPerFAT*sectorBytes {
			t.Errorf("chooseGeometry(%d): a FAT of %d sectors for %d clusters", tt.size, g.sectorsPerFAT, g.clusters)
		}
	}
}

func TestStamp(t *testing.T) {
	tests := []struct {
		at   time.Time
		want stamp
	}{
		{time.Time{}, stamp{0x21, 0}},
		{time.Date(1980, 1, 1, 0, 0, 1, 0, time.UTC), stamp{0x21, 0}},
		{time.Date(2024, 2, 29, 12, 34, 57, 0, time.UTC), stamp{44<<9 | 2<<5 | 29, 12<<11 | 34<<5 | 28}},
		{time.Date(2024, 1, 1, 0, 30, 0, 0, time.FixedZone("", 3600)), stamp{43<<9 | 12<<5 | 31, 23<<11 | 30<<5}},
		{time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC), stamp{127<<9 | 12<<5 | 31, 23<<11 | 59<<5 | 29}},
	}
	for _, tt := range tests {
		if got := makeStamp(tt.at); got != tt.want {
			t.Errorf("makeStamp(%v) = %v; want %v", tt.at, got, tt.want)
		}
	}
}
