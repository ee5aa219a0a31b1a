package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// decodePEM returns the one block that data must consist of. Anything behind it
// is refused, such as the zeros of a torn write, or a second certificate that
// one part of a program would see and another would not.
func decodePEM(data []byte, kinds ...string) ([]byte, error) {
	if len(data) == 0 {
		return nil, errors.New("the file is empty, probably a write that was cut short; restore it")
	}
	block, rest := pem.Decode(data)
	if block == nil {
		return nil, errors.New("it has no PEM block; restore the file")
	}
	for _, kind := range kinds {
		if block.Type == kind {
			if len(bytes.TrimSpace(rest)) > 0 {
				return nil, fmt.Errorf("something follows the PEM block %q; keep one block a file", kind)
			}
			return block.Bytes, nil
		}
	}
	return nil, fmt.Errorf("it has a PEM block %.40q; want %q", block.Type, kinds[0])
}

// parseKey reads a P-256 key as PKCS #8 or, as openssl ecparam writes it, SEC 1
// (RFC 5915).
func parseKey(data []byte) (*ecdsa.PrivateKey, error) {
	der, err := decodePEM(data, "PRIVATE KEY", "EC PRIVATE KEY")
	if err != nil {
		return nil, err
	}
	var parsed any
	if parsed, err = x509.ParsePKCS8PrivateKey(der); err != nil {
		var sec1 error
		if parsed, sec1 = x509.ParseECPrivateKey(der); sec1 != nil {
			return nil, fmt.Errorf("read the private key: %w; restore the file", err)
		}
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("the key is not ECDSA P-256; issue a new certificate")
	}
	return key, nil
}
