package bundle

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"machined/hal"
)

// Write writes a bundle of the files of m, which it sorts by path in lower case
// with / first, signed with each of keys. open returns a file of m; its bytes
// are compared with the size and the SHA-256 that m has for it. The same
// arguments make the same bytes. ErrManifest, ErrTooLarge, ErrDamaged, and the
// errors of w and open; what was written before an error is to be thrown away.
func Write(w io.Writer, m Manifest, open func(path string) (io.ReadCloser, error), keys []ed25519.PrivateKey) error {
	m.Files = slices.Clone(m.Files)
	slices.SortFunc(m.Files, func(a, b hal.SlotFile) int { return comparePaths(a.Path, b.Path) })
	head, err := m.head(keys)
	if err != nil {
		return fmt.Errorf("make the bundle of %s for %s: %w", m.Version, m.Board, err)
	}
	if _, err := w.Write(head); err != nil {
		return fmt.Errorf("write the bundle's manifest: %w", err)
	}
	for _, f := range m.Files {
		if err := writeFile(w, f, open); err != nil {
			return fmt.Errorf("write file %s into the bundle: %w", f.Path, err)
		}
	}
	return nil
}

// head returns all that is before the files.
func (m *Manifest) head(keys []ed25519.PrivateKey) ([]byte, error) {
	manifest, err := m.encode()
	if err != nil {
		return nil, err
	}
	if len(keys) > MaxSignatures {
		return nil, fmt.Errorf("%w: there are %d keys; at most %d signatures are allowed", ErrTooLarge, len(keys), MaxSignatures)
	}
	b := []byte(magic)
	b = binary.BigEndian.AppendUint32(b, formatVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(manifest)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(keys)))
	b = append(b, manifest...)
	seen := make(map[KeyID]bool)
	for _, key := range keys {
		if len(key) != ed25519.PrivateKeySize {
			return nil, fmt.Errorf("sign with a key of %d bytes; an Ed25519 private key has %d", len(key), ed25519.PrivateKeySize)
		}
		id := KeyIDOf(key.Public().(ed25519.PublicKey))
		if seen[id] {
			return nil, fmt.Errorf("key %s is there twice; name each once", id)
		}
		seen[id] = true
		b = append(append(b, id[:]...), ed25519.Sign(key, manifest)...)
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

func writeFile(w io.Writer, f hal.SlotFile, open func(path string) (io.ReadCloser, error)) error {
	r, err := open(f.Path)
	if err != nil {
		return err
	}
	defer r.Close()
	sum := sha256.New()
	// One byte more shows that it has grown.
	n, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(r, f.Size+1))
	if err != nil {
		return err
	}
	if n != f.Size || [sha256.Size]byte(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%w: the file is not what it was when its hash was taken; build again", ErrDamaged)
	}
	return nil
}
