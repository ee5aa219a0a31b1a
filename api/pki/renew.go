package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// renewBefore is how long before its end a node's certificate is renewed.
const renewBefore = 30 * 24 * time.Hour

var (
	// ErrNoKey says that a certificate cannot be renewed, since the key of its
	// authority is elsewhere.
	ErrNoKey = errors.New("the key of the CA is not on the node")
	// ErrCATime says that the authority itself is not in force.
	ErrCATime = errors.New("the CA is not in force")
)

// Renewed returns n with a new certificate for the same names, if the one that
// it has is not in force at now, or not for long; otherwise it returns n. A
// clock that was wrong when the certificate was made can leave it so.
func (n *Node) Renewed(now time.Time) (*Node, error) {
	if !now.Before(n.Cert.NotBefore) && now.Before(n.Cert.NotAfter.Add(-renewBefore)) {
		return n, nil
	}
	what := fmt.Sprintf("renew the node's certificate, which is for %s to %s",
		n.Cert.NotBefore.Format(time.DateOnly), n.Cert.NotAfter.Format(time.DateOnly))
	if now.Before(n.CACert.NotBefore) || !now.Before(n.CACert.NotAfter) {
		return nil, fmt.Errorf("%s: %w: it is for %s to %s, and it is %s", what, ErrCATime,
			n.CACert.NotBefore.Format(time.DateOnly), n.CACert.NotAfter.Format(time.DateOnly), now.UTC().Format(time.DateOnly))
	}
	if !now.Before(n.Cert.NotBefore) && !n.Cert.NotAfter.Before(n.CACert.NotAfter) {
		return n, nil // it ends with its authority: no other could last longer
	}
	if n.CA == nil {
		return nil, fmt.Errorf("%s: %w; issue one there", what, ErrNoKey)
	}
	// The same key: a renewal then changes one file.
	cert, err := n.CA.sign(&x509.Certificate{
		Subject: n.Cert.Subject, DNSNames: n.Cert.DNSNames, ExtKeyUsage: n.Cert.ExtKeyUsage,
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}, n.Key, now, longLife)
	if err != nil {
		return nil, err
	}
	renewed := *n
	renewed.Cert = cert
	return &renewed, nil
}

// ReplaceCert writes the certificate of a node that was renewed over the one in
// its directory, in one step.
func ReplaceCert(dir string, n *Node) error { return writeFile(dir, certFile(NodeCertFile, n.Cert)) }
