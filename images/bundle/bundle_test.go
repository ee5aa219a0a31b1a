package bundle

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"machined/hal"
)

// key returns a private key that is the same in each run.
func key(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func public(n byte) ed25519.PublicKey { return key(n).Public().(ed25519.PublicKey) }

func slotFile(path, text string) hal.SlotFile {
	return hal.SlotFile{Path: path, Size: int64(len(text)), SHA256: sha256.Sum256([]byte(text))}
}

// tinyFiles are a slot's, unsorted. One is empty.
var tinyFiles = []struct{ path, text string }{
	{"system.squashfs", "the system"}, {"overlays/README", "x"}, {"empty", ""}, {"linux.efi", "MZ kernel"},
}

func tiny() Manifest {
	m := Manifest{Version: "v1.2.3-4-gabc1234", Board: "x86_64-uefi", BuildTime: 1796006004, MinVersion: "v1.0.0", Arguments: "console=tty0 panic=10"}
	for _, f := range tinyFiles {
		m.Files = append(m.Files, slotFile(f.path, f.text))
	}
	return m
}

func openTiny(path string) (io.ReadCloser, error) {
	for _, f := range tinyFiles {
		if f.path == path {
			return io.NopCloser(strings.NewReader(f.text)), nil
		}
	}
	return nil, fmt.Errorf("open %s: %w", path, os.ErrNotExist)
}

func write(t testing.TB, m Manifest, keys ...ed25519.PrivateKey) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, m, openTiny, keys); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readAll reads a bundle to its end as a node does, and returns its files.
func readAll(r io.Reader, keys ...ed25519.PublicKey) (map[string]string, error) {
	b, err := NewReader(r)
	if err != nil {
		return nil, err
	}
	if err := b.Verify(keys); err != nil {
		return nil, err
	}
	files := make(map[string]string)
	for {
		f, err := b.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(b)
		if err != nil {
			return nil, err
		}
		files[f.Path] = string(text)
	}
}

// TestGolden notices every change of a byte: what has been built has to stay
// readable. A change here is a new format, with a new number.
func TestGolden(t *testing.T) {
	got, path := write(t, tiny(), key(1)), filepath.Join("testdata", "tiny.bundle")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("Write() =\n%q\nwant\n%q", got, want)
	}
}

func TestRoundTrip(t *testing.T) {
	data := write(t, tiny(), key(1), key(2))
	for name, r := range map[string]io.Reader{
		"at once": bytes.NewReader(data), "byte by byte": iotest.OneByteReader(bytes.NewReader(data)),
		"the end with the data": iotest.DataErrReader(bytes.NewReader(data)), "in halves": iotest.HalfReader(bytes.NewReader(data)),
	} {
		files, err := readAll(r, public(2))
		if err != nil || len(files) != len(tinyFiles) {
			t.Errorf("%s: %d files, %v; want %d", name, len(files), err, len(tinyFiles))
		}
		for _, f := range tinyFiles {
			if files[f.path] != f.text {
				t.Errorf("%s: %s is %q; want %q", name, f.path, files[f.path], f.text)
			}
		}
	}
	b, err := NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	want := tiny()
	slices.SortFunc(want.Files, func(a, b hal.SlotFile) int { return strings.Compare(a.Path, b.Path) })
	m := b.Manifest()
	if fmt.Sprint(*m) != fmt.Sprint(want) || m.Size() != 20 {
		t.Errorf("Manifest() = %+v of %d bytes; want %+v of 20", *m, m.Size(), want)
	}
	content := hal.SlotContent{Version: want.Version, Board: want.Board, Arguments: want.Arguments, Files: want.Files}
	if got := b.Content(); fmt.Sprint(got) != fmt.Sprint(content) {
		t.Errorf("Content() = %+v; want %+v", got, content)
	}
	if got, want := b.Signers(), []KeyID{KeyIDOf(public(1)), KeyIDOf(public(2))}; !slices.Equal(got, want) {
		t.Errorf("Signers() = %v; want %v", got, want)
	}
}

// TestSkip goes on without reading, which does not get around the hashes.
func TestSkip(t *testing.T) {
	data := write(t, tiny())
	b, err := NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Next(); !errors.Is(err, ErrNotVerified) {
		t.Errorf("Next() = %v before Verify; want ErrNotVerified", err)
	}
	if err := b.Verify(nil); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Read(make([]byte, 8)); n != 0 || err != io.EOF {
		t.Errorf("Read() = %d, %v before Next; want io.EOF", n, err)
	}
	var paths []string
	for {
		f, err := b.Next()
		if err != nil {
			if err != io.EOF {
				t.Error(err)
			}
			break
		}
		paths = append(paths, f.Path)
	}
	if want := []string{"empty", "linux.efi", "overlays/README", "system.squashfs"}; !slices.Equal(paths, want) {
		t.Errorf("the files are %q; want %q", paths, want)
	}
	for range 2 {
		if _, err := b.Next(); err != io.EOF {
			t.Errorf("Next() = %v behind the end; want io.EOF", err)
		}
	}
}

// TestLastBytesHeldBack reads exactly the bytes of a damaged file, as who knows
// its size would, and must not get them all.
func TestLastBytesHeldBack(t *testing.T) {
	data := write(t, tiny())
	data[len(data)-1] ^= 1
	b, err := NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Verify(nil); err != nil {
		t.Fatal(err)
	}
	var f hal.SlotFile
	for range tinyFiles {
		if f, err = b.Next(); err != nil {
			t.Fatal(err)
		}
	}
	_, err = io.ReadFull(b, make([]byte, f.Size))
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "system.squashfs") {
		t.Errorf("ReadFull() = %v; want ErrDamaged with the file's name", err)
	}
	if _, again := b.Next(); again != err {
		t.Errorf("Next() = %v after %v; want the same", again, err)
	}
}
