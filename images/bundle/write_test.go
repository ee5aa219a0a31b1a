package bundle

import (
	"crypto/ed25519"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"machined/hal"
)

func TestWriteErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*Manifest)
		keys []ed25519.PrivateKey
		says string
		want error
	}{
		{"no version", func(m *Manifest) { m.Version = "" }, nil, "there is no version", ErrManifest},
		{"no board", func(m *Manifest) { m.Board = "" }, nil, "there is no board", ErrManifest},
		{"a time before 1970", func(m *Manifest) { m.BuildTime = -1 }, nil, "built at -1", ErrManifest},
		{"a line end in a field", func(m *Manifest) { m.Version = "v1\nboard x" }, nil, "is not of at most", ErrManifest},
		{"a line end in the arguments", func(m *Manifest) { m.Arguments = "a\nb" }, nil, "one line", ErrManifest},
		{"files that are one", func(m *Manifest) { m.Files = append(m.Files, slotFile("OVERLAYS/readme", "x")) }, nil, "are one on FAT", ErrManifest},
		{"a negative size", func(m *Manifest) { m.Files[0].Size = -1 }, nil, "has -1 bytes", ErrTooLarge},
		{"many files", func(m *Manifest) { m.Files = make([]hal.SlotFile, MaxFiles+1) }, nil, "4097 files", ErrTooLarge},
		{"a long manifest", longManifest, nil, "at most 524288 are allowed", ErrTooLarge},
		{"many keys", nil, slices.Repeat([]ed25519.PrivateKey{key(1)}, 17), "17 keys", ErrTooLarge},
		{"a key twice", nil, []ed25519.PrivateKey{key(1), key(2), key(1)}, "is there twice", errAny},
		{"half a key", nil, []ed25519.PrivateKey{key(1)[:32]}, "a key of 32 bytes", errAny},
		{"a file that is not there", func(m *Manifest) { m.Files[0].Path = "none" }, nil, "write file none into the bundle", os.ErrNotExist},
		{"a file that has shrunk", func(m *Manifest) { m.Files[0].Size++ }, nil, "write file system.squashfs", ErrDamaged},
		{"a file that has grown", func(m *Manifest) { m.Files[0].Size-- }, nil, "write file system.squashfs", ErrDamaged},
		{"a file that has changed", func(m *Manifest) { m.Files[0].SHA256[0]++ }, nil, "build again", ErrDamaged},
	} {
		m := tiny()
		if c.edit != nil {
			c.edit(&m)
		}
		err := Write(io.Discard, m, openTiny, c.keys)
		if err == nil || c.want != errAny && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Write() with %s = %v; want %v and %q", c.name, err, c.want, c.says)
		}
	}
	before := tiny()
	m := tiny()
	if err := Write(io.Discard, m, openTiny, nil); err != nil || !slices.Equal(m.Files, before.Files) {
		t.Errorf("Write() = %v, and the caller's files are in another order", err)
	}
}

// longManifest has as many files as are allowed, with the longest names.
func longManifest(m *Manifest) {
	m.Files = nil
	for i := range MaxFiles {
		m.Files = append(m.Files, slotFile(strings.Repeat("x", 197)+string([]byte{'a' + byte(i>>8), 'a' + byte(i>>4&15), 'a' + byte(i&15)}), ""))
	}
}

// TestWriterFails has the disk full at each byte.
func TestWriterFails(t *testing.T) {
	full := errors.New("no space left")
	for n := range len(write(t, tiny(), key(1))) {
		if err := Write(&limitedWriter{left: n, err: full}, tiny(), openTiny, []ed25519.PrivateKey{key(1)}); !errors.Is(err, full) {
			t.Errorf("Write() = %v with room for %d bytes; want %v", err, n, full)
		}
	}
}

type limitedWriter struct {
	left int
	err  error
}

func (w *limitedWriter) Write(b []byte) (int, error) {
	n := min(len(b), w.left)
	w.left -= n
	if n < len(b) {
		return n, w.err
	}
	return n, nil
}
