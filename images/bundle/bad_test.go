package bundle

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// seal makes a head around any manifest, with a checksum that fits, as somebody
// would who means harm.
func seal(manifest string, signatures int) []byte {
	b := []byte(magic)
	for _, n := range []int{formatVersion, len(manifest), signatures} {
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	b = append(b, manifest...)
	b = append(b, make([]byte, signatures*signatureSize)...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// TestTruncated cuts a bundle behind each byte.
func TestTruncated(t *testing.T) {
	data := write(t, tiny(), key(1))
	for n := range data {
		if _, err := readAll(bytes.NewReader(data[:n])); !errors.Is(err, ErrTruncated) {
			t.Errorf("%d of %d bytes: %v; want ErrTruncated", n, len(data), err)
		}
	}
	_, err := readAll(bytes.NewReader(data[:len(data)-1]))
	const want = "read file system.squashfs of the bundle, 9 of 10 bytes: the bundle is cut short: more was to come; fetch it again"
	if err == nil || err.Error() != want {
		t.Errorf("one byte less: %v; want %s", err, want)
	}
}

// TestFlippedBit flips each bit of a bundle, with and without keys: nothing
// else is ever accepted.
func TestFlippedBit(t *testing.T) {
	data := write(t, tiny(), key(1))
	for _, keys := range [][]ed25519.PublicKey{nil, {public(1)}} {
		for i := range data {
			for bit := range 8 {
				data[i] ^= 1 << bit
				if _, err := readAll(bytes.NewReader(data), keys...); err == nil {
					t.Errorf("bit %d of byte %d flipped: accepted with %d keys", bit, i, len(keys))
				}
				data[i] ^= 1 << bit
			}
		}
	}
}

// TestReadError passes on what is wrong with the connection, once and for all.
func TestReadError(t *testing.T) {
	data, broken := write(t, tiny()), errors.New("connection reset")
	for n := range len(data) + 1 {
		_, err := readAll(io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) || errors.Is(err, ErrTruncated) {
			t.Errorf("%d of %d bytes: %v; want %v", n, len(data), err, broken)
		}
	}
}

func TestBadHead(t *testing.T) {
	good := write(t, tiny())
	with := func(at int, b ...byte) []byte {
		data := bytes.Clone(good)
		copy(data[at:], b)
		return data
	}
	length := len(magic) + 4
	for _, c := range []struct {
		name string
		data []byte
		want error
		says string
	}{
		{"nothing", nil, ErrTruncated, "more was to come"},
		{"a web page", []byte("<html>not found</html>"), ErrNotBundle, `it begins with "<html>not found<"; use a file that`},
		{"a short text", []byte("no"), ErrNotBundle, `"no"`},
		{"another magic", with(0, 'M'), ErrNotBundle, "it begins with"},
		{"a future format", with(len(magic), 0, 0, 0, 2), ErrFormat, "it has format 2, and this version reads 1"},
		{"no format", with(len(magic), 0, 0, 0, 0), ErrFormat, "format 0"},
		{"a long manifest", with(length, 0, 8, 0, 1), ErrTooLarge, "524289 bytes"},
		{"the longest manifest", with(length, 0xff, 0xff, 0xff, 0xff), ErrTooLarge, "4294967295 bytes"},
		{"many signatures", with(length+4, 0, 0, 0, 17), ErrTooLarge, "17 signatures"},
		{"the most signatures", with(length+4, 0xff, 0xff, 0xff, 0xff), ErrTooLarge, "4294967295 signatures"},
		{"a signature that is not there", with(length+4, 0, 0, 0, 1), ErrTruncated, ""},
		{"two signatures by one key", seal(tinyText, 2), ErrManifest, "two signatures by key 0000000000000000"},
		{"a damaged manifest", with(headerSize+20, '?'), ErrDamaged, "fetch it again"},
		{"trailing bytes", append(bytes.Clone(good), 0), ErrTrailing, ""},
		{"two bundles", append(bytes.Clone(good), good...), ErrTrailing, ""},
		{"a damaged file", with(len(good)-1, '?'), ErrDamaged, "read file system.squashfs of the bundle"},
		{"a damaged first file", with(len(good)-20, '?'), ErrDamaged, "read file linux.efi of the bundle"},
	} {
		if _, err := readAll(bytes.NewReader(c.data)); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %v and %q", c.name, err, c.want, c.says)
		}
	}
}

func TestVerify(t *testing.T) {
	forged := write(t, tiny(), key(1))
	head := len(forged) - 20 - sha256.Size
	copy(forged[head-ed25519.SignatureSize:], ed25519.Sign(key(1), []byte("another manifest")))
	sum := sha256.Sum256(forged[:head])
	copy(forged[head:], sum[:])
	for _, c := range []struct {
		name string
		data []byte
		keys []ed25519.PublicKey
		want error
		says string
	}{
		{"unsigned, no keys", write(t, tiny()), nil, nil, ""},
		{"signed, no keys", write(t, tiny(), key(1)), nil, nil, ""},
		{"signed by the key", write(t, tiny(), key(1)), []ed25519.PublicKey{public(1)}, nil, ""},
		{"signed by one of the keys", write(t, tiny(), key(3), key(2)), []ed25519.PublicKey{public(1), public(2)}, nil, ""},
		{"unsigned", write(t, tiny()), []ed25519.PublicKey{public(1)}, ErrUnsigned, "build it with --key"},
		{"signed by another", write(t, tiny(), key(2), key(3)), []ed25519.PublicKey{public(1)}, ErrUnknownKey,
			"it is signed by " + list([]KeyID{KeyIDOf(public(2)), KeyIDOf(public(3))}) + ", and trusted are " + KeyIDOf(public(1)).String()},
		{"forged", forged, []ed25519.PublicKey{public(2), public(1)}, ErrSignature, "it says that it is by key " + KeyIDOf(public(1)).String()},
		{"a short key", write(t, tiny(), key(1)), []ed25519.PublicKey{public(1)[:31]}, errAny, "a trusted key has 31 bytes"},
	} {
		_, err := readAll(bytes.NewReader(c.data), c.keys...)
		switch {
		case c.want == nil:
			if err != nil {
				t.Errorf("%s: %v; want no error", c.name, err)
			}
		case err == nil || c.want != errAny && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says):
			t.Errorf("%s: %v; want %v and %q", c.name, err, c.want, c.says)
		}
	}
}

var errAny = errors.New("any error")
