package bundle

import (
	"crypto/ed25519"
	"fmt"
	"strings"
)

// Signers returns the names of the keys that the bundle says it is signed by.
func (b *Reader) Signers() []KeyID {
	ids := make([]KeyID, len(b.signatures))
	for i, s := range b.signatures {
		ids[i] = s.key
	}
	return ids
}

// Verify looks for a good signature by one of keys, and lets Next go on. With
// no keys nothing is asked of the bundle. ErrUnsigned, ErrUnknownKey,
// ErrSignature.
func (b *Reader) Verify(keys []ed25519.PublicKey) error {
	b.verified = false
	if err := b.verify(keys); err != nil {
		return fmt.Errorf("verify the bundle of %s: %w", b.manifest.Version, err)
	}
	b.verified = true
	return nil
}

func (b *Reader) verify(keys []ed25519.PublicKey) error {
	if len(keys) == 0 {
		return nil
	}
	if len(b.signatures) == 0 {
		return fmt.Errorf("%w, and the keys %s are trusted alone; build it with --key", ErrUnsigned, list(idsOf(keys)))
	}
	var bad []KeyID
	for _, key := range keys {
		// ed25519.Verify panics on a key of another length.
		if len(key) != ed25519.PublicKeySize {
			return fmt.Errorf("a trusted key has %d bytes; an Ed25519 public key has %d", len(key), ed25519.PublicKeySize)
		}
		for _, s := range b.signatures {
			if s.key != KeyIDOf(key) {
				continue
			}
			if ed25519.Verify(key, b.raw, s.bytes[:]) {
				return nil
			}
			bad = append(bad, s.key)
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("%w: it says that it is by key %s, and it is not; do not trust where it is from", ErrSignature, list(bad))
	}
	return fmt.Errorf("%w: it is signed by %s, and trusted are %s; sign it with one of these, or trust its key", ErrUnknownKey, list(b.Signers()), list(idsOf(keys)))
}

func idsOf(keys []ed25519.PublicKey) []KeyID {
	ids := make([]KeyID, len(keys))
	for i, key := range keys {
		ids[i] = KeyIDOf(key)
	}
	return ids
}

// list joins names for a person.
func list(ids []KeyID) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.String()
	}
	return strings.Join(names, ", ")
}
