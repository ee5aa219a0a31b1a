package bundle

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"machined/hal"
)

// Reader reads a bundle as it comes. It is for one goroutine.
type Reader struct {
	r          io.Reader
	manifest   Manifest
	raw        []byte // of the manifest: what is signed
	signatures []signature
	verified   bool

	next int   // the file that Next returns
	left int64 // bytes of the one before it
	sum  hash.Hash
	got  [sha256.Size]byte
	one  [1]byte
	err  error // the first one, which all calls return from then on
}

// NewReader reads all that is before the files. It takes no byte of r that
// belongs to them. ErrNotBundle, ErrFormat, ErrTruncated, ErrDamaged,
// ErrManifest, ErrTooLarge, and the errors of r.
func NewReader(r io.Reader) (*Reader, error) {
	b := &Reader{r: r, sum: sha256.New()}
	if err := b.readHead(); err != nil {
		return nil, fmt.Errorf("read the bundle's manifest: %w", err)
	}
	return b, nil
}

func (b *Reader) readHead() error {
	header := make([]byte, headerSize)
	n, err := io.ReadFull(b.r, header)
	if seen := min(n, len(magic)); string(header[:seen]) != magic[:seen] {
		return fmt.Errorf("%w: it begins with %q; use a file that `machinectl bundle build` has made", ErrNotBundle, header[:seen])
	}
	if err != nil {
		return cut(err)
	}
	format := binary.BigEndian.Uint32(header[len(magic):])
	size := binary.BigEndian.Uint32(header[len(magic)+4:])
	signatures := binary.BigEndian.Uint32(header[len(magic)+8:])
	if format != formatVersion {
		return fmt.Errorf("%w: it has format %d, and this version reads %d; upgrade to a version in between first", ErrFormat, format, formatVersion)
	}
	if size > MaxManifest || signatures > MaxSignatures {
		return fmt.Errorf("%w: its manifest has %d bytes and %d signatures; at most %d and %d are allowed", ErrTooLarge, size, signatures, MaxManifest, MaxSignatures)
	}
	b.raw = make([]byte, size)
	if _, err := io.ReadFull(b.r, b.raw); err != nil {
		return cut(err)
	}
	rest := make([]byte, int(signatures)*signatureSize+sha256.Size)
	if _, err := io.ReadFull(b.r, rest); err != nil {
		return cut(err)
	}
	list, checksum := rest[:len(rest)-sha256.Size], rest[len(rest)-sha256.Size:]
	for _, part := range [][]byte{header, b.raw, list} {
		b.sum.Write(part)
	}
	if b.sum.Sum(b.got[:0]); b.got != [sha256.Size]byte(checksum) {
		return fmt.Errorf("%w: its manifest has the SHA-256 %x, and %x was written; fetch it again", ErrDamaged, b.got, checksum)
	}
	if b.manifest, err = decode(b.raw); err != nil {
		return err
	}
	return b.readSignatures(list)
}

func (b *Reader) readSignatures(list []byte) error {
	b.signatures = make([]signature, len(list)/signatureSize)
	for i := range b.signatures {
		s := list[i*signatureSize:][:signatureSize]
		b.signatures[i] = signature{KeyID(s[:keyIDSize]), [signatureSize - keyIDSize]byte(s[keyIDSize:])}
		for _, other := range b.signatures[:i] {
			if other.key == b.signatures[i].key {
				return fmt.Errorf("%w: there are two signatures by key %s", ErrManifest, other.key)
			}
		}
	}
	return nil
}

// cut has the end of the bytes as an error of its own.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: more was to come; fetch it again", ErrTruncated)
	}
	return err
}

// Manifest returns what the bundle says of itself. Believe it when Verify has.
func (b *Reader) Manifest() *Manifest { return &b.manifest }

// Content returns the manifest as a bootloader takes it.
func (b *Reader) Content() hal.SlotContent {
	m := &b.manifest
	return hal.SlotContent{Version: m.Version, Board: m.Board, Arguments: m.Arguments, Files: m.Files}
}

// Next goes on to the next file, whose bytes Read returns; what is left of the
// one before is read and checked. Behind the last file it returns io.EOF, when
// the bundle is whole and nothing follows. ErrNotVerified before Verify;
// ErrTruncated, ErrDamaged, ErrTrailing, and the errors of the reader below.
// After an error there is nothing but that error.
func (b *Reader) Next() (hal.SlotFile, error) {
	if !b.verified {
		return hal.SlotFile{}, fmt.Errorf("%w: call Verify first", ErrNotVerified)
	}
	if b.err == nil && b.left > 0 {
		_, _ = io.Copy(io.Discard, b) // Read keeps the error
	}
	if b.err != nil {
		return hal.SlotFile{}, b.err
	}
	if b.next == len(b.manifest.Files) {
		b.err = b.end()
		return hal.SlotFile{}, b.err
	}
	f := b.manifest.Files[b.next]
	b.next++
	b.left = f.Size
	b.sum.Reset()
	if b.left == 0 {
		b.err = b.check(f)
	}
	return f, b.err
}

// Read returns bytes of the file that Next has returned, and io.EOF at its end.
// The last of them are held back unless the file has the SHA-256 of the
// manifest: who has read all bytes of a file has the right ones. The errors are
// those of Next.
func (b *Reader) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.left == 0 {
		return 0, io.EOF
	}
	f := b.manifest.Files[b.next-1]
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.sum.Write(p[:n])
	b.left -= int64(n)
	if b.left == 0 {
		if b.err = b.check(f); b.err != nil {
			return 0, b.err
		}
		return n, nil
	}
	if err != nil {
		b.err = fmt.Errorf("read file %s of the bundle, %d of %d bytes: %w", f.Path, f.Size-b.left, f.Size, cut(err))
	}
	return n, b.err
}

// check compares the hash of a file that was read to its end.
func (b *Reader) check(f hal.SlotFile) error {
	if b.sum.Sum(b.got[:0]); b.got == f.SHA256 {
		return nil
	}
	return fmt.Errorf("read file %s of the bundle: %w: it has the SHA-256 %x, and the manifest has %x; fetch it again", f.Path, ErrDamaged, b.got, f.SHA256)
}

// end returns io.EOF where nothing follows.
func (b *Reader) end() error {
	switch n, err := io.ReadFull(b.r, b.one[:]); {
	case n > 0:
		return fmt.Errorf("read the end of the bundle: %w: use the file as it was built", ErrTrailing)
	case errors.Is(err, io.EOF):
		return io.EOF
	default:
		return fmt.Errorf("read the end of the bundle: %w", err)
	}
}
