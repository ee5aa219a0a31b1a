// Package bundle writes and reads bundles: a version of machined for a board as
// one file that is streamed into a slot. docs/bundle.md has the format.
//
// It is linked into PID 1: beside the standard library it imports hal alone, and
// the memory that it takes does not depend on the size of the files.
package bundle

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"

	"machined/hal"
)

// Bounds of what is written and read. They are far above what a slot holds, and
// far below what would hurt a board with 512 MB.
const (
	// MaxManifest is in bytes.
	MaxManifest = 512 << 10
	MaxFiles    = 4096
	// MaxFileSize and MaxTotalSize are in bytes.
	MaxFileSize   int64 = 2 << 30
	MaxTotalSize  int64 = 4 << 30
	MaxSignatures       = 16
	// MaxArguments is in bytes. The kernel takes 2048 on arm64 and x86-64, and
	// the firmware and the bootloader add theirs.
	MaxArguments = 1024
)

// The head of a bundle.
const (
	magic         = "machined bundle\n"
	formatVersion = 1
	headerSize    = len(magic) + 3*4 // format, length of the manifest, signatures
	signatureSize = keyIDSize + ed25519.SignatureSize
	keyIDSize     = 8
)

const (
	// ErrNotBundle says that the bytes begin unlike a bundle.
	ErrNotBundle hal.Error = "not a bundle"
	// ErrFormat says that the bundle is of a format that this version cannot read.
	ErrFormat hal.Error = "unknown format of bundle"
	// ErrTruncated says that the bytes ended before the bundle did.
	ErrTruncated hal.Error = "the bundle is cut short"
	// ErrDamaged says that bytes are not those of the hash that stands for them.
	ErrDamaged hal.Error = "the bundle is damaged"
	// ErrTrailing says that more follows where the bundle ends.
	ErrTrailing hal.Error = "bytes after the end of the bundle"
	// ErrManifest says that a manifest is not as docs/bundle.md has it.
	ErrManifest hal.Error = "invalid manifest of a bundle"
	// ErrTooLarge says that one of the bounds is passed.
	ErrTooLarge hal.Error = "the bundle is too large"

	// ErrUnsigned says that a signature is wanted and there is none.
	ErrUnsigned hal.Error = "the bundle is not signed"
	// ErrUnknownKey says that all signatures are by keys that are not trusted.
	ErrUnknownKey hal.Error = "the bundle is signed by unknown keys alone"
	// ErrSignature says that a signature names a trusted key and is not by it.
	ErrSignature hal.Error = "the bundle has a bad signature"
	// ErrNotVerified says that Next was called before Verify.
	ErrNotVerified hal.Error = "the bundle's signatures were not looked at"
)

// Manifest says what a bundle holds and for whom.
type Manifest struct {
	Version string // of machined, as git-describe(1) has it
	Board   string // a name of the table of boards
	// BuildTime is the Unix time of the sources in seconds.
	BuildTime int64
	// MinVersion is the oldest version that may be upgraded by this bundle;
	// empty for any.
	MinVersion string
	// Arguments are the kernel's, without machined.slot=, which the node adds.
	Arguments string
	// Files are sorted as the bundle has them, see Write. The paths are relative
	// to the slot.
	Files []hal.SlotFile
}

// Size returns the bytes of all files together.
func (m *Manifest) Size() int64 {
	var n int64
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// KeyID names a key: the first 8 bytes of the SHA-256 of the 32 bytes of the
// public key. It finds the key that a signature is by, and proves nothing.
type KeyID [keyIDSize]byte

// KeyIDOf returns the name of a key.
func KeyIDOf(key ed25519.PublicKey) KeyID {
	sum := sha256.Sum256(key)
	return KeyID(sum[:keyIDSize])
}

// String returns the name in hex.
func (id KeyID) String() string { return hex.EncodeToString(id[:]) }

// signature is one over the bytes of the manifest.
type signature struct {
	key   KeyID
	bytes [ed25519.SignatureSize]byte
}
