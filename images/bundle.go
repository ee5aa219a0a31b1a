package images

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"machined/board"
	"machined/hal"
	"machined/images/bundle"
	"machined/images/fat32"
	"machined/images/parts"
)

// BundleOptions says what bundle to build.
type BundleOptions struct {
	Board board.Board
	Store *parts.Store
	// MinVersion is the oldest version that may be upgraded by the bundle;
	// empty for any.
	MinVersion string
	// Keys sign the bundle; none for an unsigned one.
	Keys []ed25519.PrivateKey
	// Progress is told of the bytes written so far and in all; may be nil.
	Progress func(done, total int64)
}

// Bundle says what was built.
type Bundle struct {
	Path     string
	SHA256   string
	Size     int64 // bytes
	Manifest bundle.Manifest
}

// BuildBundle writes a bundle of what a slot of the board holds to path: all
// files but cmdline.txt and manifest.json, which the node writes, since they
// differ from slot to slot. It takes the place of an earlier file when it is
// complete; on an error there is nothing new. The same inputs make the same
// bytes.
func BuildBundle(path string, o BundleOptions) (built Bundle, err error) {
	defer func() {
		if err != nil {
			os.Remove(partial(path))
			err = fmt.Errorf("build bundle %s for %s: %w", path, o.Board.Name, err)
		}
	}()
	if err := checkOutputs([]string{path}); err != nil {
		return Bundle{}, err
	}
	m, files, err := bundleContent(o)
	if err != nil {
		return Bundle{}, err
	}
	w, err := createBundle(partial(path), m.Size(), o.Progress)
	if err != nil {
		return Bundle{}, err
	}
	defer w.f.Close()
	open := func(name string) (io.ReadCloser, error) { return files[name].Open() }
	if err := bundle.Write(w, m, open, o.Keys); err != nil {
		return Bundle{}, err
	}
	if err := errors.Join(w.f.Sync(), w.f.Close()); err != nil {
		return Bundle{}, err
	}
	if err := os.Rename(partial(path), path); err != nil {
		return Bundle{}, err
	}
	return Bundle{Path: path, SHA256: hex.EncodeToString(w.sum.Sum(nil)), Size: w.done, Manifest: m}, nil
}

// bundleContent returns the manifest of a bundle, and its files by their paths.
func bundleContent(o BundleOptions) (bundle.Manifest, map[string]fat32.File, error) {
	m := bundle.Manifest{
		Version: o.Store.Index.Version, Board: o.Board.Name, BuildTime: o.Store.Index.BuildTime,
		MinVersion: o.MinVersion, Arguments: arguments(o.Board, o.Store),
	}
	if order, ok := bundle.Compare(m.Version, m.MinVersion); ok && order < 0 {
		return m, nil, fmt.Errorf("the minimum version %s is newer than what is built, %s; no node could go back to it", m.MinVersion, m.Version)
	}
	files := make(map[string]fat32.File)
	for _, s := range contentSources(o.Board, o.Store) {
		f, entry, err := s.file(o.Store, "")
		if err != nil {
			return m, nil, err
		}
		sum, err := hex.DecodeString(entry.SHA256)
		if err != nil || len(sum) != sha256.Size {
			return m, nil, fmt.Errorf("the index of the parts has %q for the SHA-256 of %s; run `make parts` to make it anew", entry.SHA256, s.path)
		}
		files[s.path] = f
		m.Files = append(m.Files, hal.SlotFile{Path: s.path, Size: entry.Size, SHA256: [sha256.Size]byte(sum)})
	}
	return m, files, nil
}
