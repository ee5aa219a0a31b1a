package bundle

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"machined/hal"
)

// FuzzReader has whatever is accepted written again: the bytes are the same.
// The checksum of the head is made to fit, to reach what is behind it; what a key
// is said to have signed is then the one manifest that it has.
func FuzzReader(f *testing.F) {
	signed := write(f, tiny(), key(1))
	f.Add(write(f, tiny()))
	f.Add(signed)
	f.Add(seal(tinyText, 1))
	original, err := NewReader(bytes.NewReader(signed))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = reseal(data)
		b, err := NewReader(bytes.NewReader(data))
		if err != nil {
			return
		}
		if b.Verify([]ed25519.PublicKey{public(1)}) == nil && !bytes.Equal(b.raw, original.raw) {
			t.Errorf("another manifest passes for signed: %q", b.raw)
		}
		if files, err := readAll(bytes.NewReader(data)); err == nil {
			checkRewrite(t, data, b, files)
		}
	})
}

// reseal puts the right checksum behind the head, if there is a whole one.
func reseal(data []byte) []byte {
	if len(data) < headerSize {
		return data
	}
	size := binary.BigEndian.Uint32(data[len(magic)+4:])
	signatures := binary.BigEndian.Uint32(data[len(magic)+8:])
	end := int64(headerSize) + int64(size) + int64(signatures)*int64(signatureSize)
	if end+sha256.Size > int64(len(data)) {
		return data
	}
	data = bytes.Clone(data)
	sum := sha256.Sum256(data[:end])
	copy(data[end:], sum[:])
	return data
}

// FuzzManifest has each manifest written in one way alone, and its paths stay
// within the slot.
func FuzzManifest(f *testing.F) {
	m := tiny()
	m.Files = []hal.SlotFile{slotFile("a", "")}
	text, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add(tinyText)
	f.Add(tinyHead + fileLines("a", "b/c"))
	f.Fuzz(func(t *testing.T, text string) {
		m, err := decode([]byte(text))
		if err != nil {
			return
		}
		again, err := m.encode()
		if len(text) <= MaxManifest && (err != nil || string(again) != text) {
			t.Errorf("%q is written again as %q, %v", text, again, err)
		}
		for _, file := range m.Files {
			if !filepath.IsLocal(file.Path) {
				t.Errorf("path %q is accepted", file.Path)
			}
		}
	})
}

// FuzzCompare has the order of any two versions be the opposite of that the
// other way round.
func FuzzCompare(f *testing.F) {
	f.Add("v1.2.3", "v1.2.3-4-gabcd-dirty")
	f.Add("v1.2.3-rc.1+x", "v1.2.3-rc.a-5-gabcd")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, okX := Compare(a, b)
		y, okY := Compare(b, a)
		if okX != okY || x*y > 0 || (x == 0) != (y == 0) {
			t.Errorf("Compare(%q, %q) = %d, %v; the other way round %d, %v", a, b, x, okX, y, okY)
		}
	})
}

func checkRewrite(t *testing.T, data []byte, b *Reader, files map[string]string) {
	t.Helper()
	open := func(path string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(files[path])), nil }
	var again bytes.Buffer
	if err := Write(&again, *b.Manifest(), open, nil); err != nil {
		t.Fatalf("what was read cannot be written: %v", err)
	}
	if len(b.signatures) == 0 && !bytes.Equal(again.Bytes(), data) {
		t.Errorf("%q is written again as %q", data, again.Bytes())
	}
}
