package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"time"
)

// NodeServerName is the DNS name in every node certificate.
const NodeServerName = "node.machined.internal"

const (
	// longLife is the validity of the authority and of nodes. Nobody visits a
	// small board to renew a certificate.
	longLife = 10 * 365 * 24 * time.Hour
	// backdate is how long before its making a certificate becomes valid. A
	// board without a battery starts with its clock at a floor, the time at
	// which its image was built or at which it last ran, and a laptop's clock
	// may be off by a time zone: both must accept what was made just now.
	backdate = 24 * time.Hour
)

// Identity is a certificate and its private key.
type Identity struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey
}

// CA is a certificate authority, with the key to issue certificates.
type CA struct {
	Identity
	// Warnings are faults of the directory that do not prevent its use.
	Warnings []string
	rand     io.Reader
}

// Node is what a node's server needs.
type Node struct {
	Identity
	// CACert is the authority that signed the node and its clients.
	CACert *x509.Certificate
	// CA is nil unless the authority's key is on the node.
	CA *CA
	// Warnings are faults of the directory that do not prevent its use.
	Warnings []string
}

// Bundle is what a client needs.
type Bundle struct {
	Identity
	CACert *x509.Certificate
	// Warnings are faults of the directory that do not prevent its use.
	Warnings []string
}

// NewCA makes an authority that is valid for 10 years. Its serial numbers, and
// those of all that it issues, come from rand: crypto/rand.Reader outside of
// tests. Keys and signatures use the system's random numbers whatever rand is,
// as crypto/ecdsa does since Go 1.26.
func NewCA(name string, now time.Time, rand io.Reader) (*CA, error) {
	ca := &CA{rand: rand}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand)
	if err != nil {
		return nil, fmt.Errorf("generate the key of CA %q: %w", name, err)
	}
	ca.Key = key
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		// The authority signs nodes and clients, no further authorities.
		MaxPathLenZero: true,
	}
	ca.Cert, err = ca.sign(template, key, now, longLife)
	if err != nil {
		return nil, err
	}
	return ca, nil
}

// IssueNode makes the certificate of a node, valid for 10 years, for
// NodeServerName and the given names. It has no IP addresses: see the package's
// comment.
func (ca *CA) IssueNode(names []string, now time.Time) (*Node, error) {
	all := []string{NodeServerName}
	for _, n := range names {
		if n == "" {
			return nil, errors.New("issue a node certificate: one of the names is empty; leave it out")
		}
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	id, err := ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: all[len(all)-1]},
		DNSNames:    all,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, now, longLife)
	if err != nil {
		return nil, err
	}
	return &Node{Identity: id, CACert: ca.Cert}, nil
}

// IssueClient makes a client certificate with at least one role, valid for ttl
// from now on, and never longer than the authority.
func (ca *CA) IssueClient(name string, roles []Role, ttl time.Duration, now time.Time) (*Bundle, error) {
	if name == "" || len(roles) == 0 || ttl <= 0 {
		return nil, fmt.Errorf("issue a client certificate for %q with %d roles and a lifetime of %v: give a name, a role and a lifetime above 0", name, len(roles), ttl)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, r := range roles {
		if r.rank() == 0 {
			return nil, fmt.Errorf("issue a client certificate for %q: %q is no role; use %s, %s or %s", name, r, RoleAdmin, RoleOperator, RoleReader)
		}
		template.Subject.Organization = append(template.Subject.Organization, string(r))
	}
	id, err := ca.issue(template, now, ttl)
	if err != nil {
		return nil, err
	}
	return &Bundle{Identity: id, CACert: ca.Cert}, nil
}

func (ca *CA) issue(template *x509.Certificate, now time.Time, ttl time.Duration) (Identity, error) {
	name := template.Subject.CommonName
	key, err := ecdsa.GenerateKey(elliptic.P256(), ca.rand)
	if err != nil {
		return Identity{}, fmt.Errorf("generate the key of %q: %w", name, err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	cert, err := ca.sign(template, key, now, ttl)
	if err != nil {
		return Identity{}, err
	}
	return Identity{Cert: cert, Key: key}, nil
}

// sign fills in what all certificates share. An authority without a certificate
// signs itself.
func (ca *CA) sign(template *x509.Certificate, key *ecdsa.PrivateKey, now time.Time, ttl time.Duration) (*x509.Certificate, error) {
	name := template.Subject.CommonName
	// RFC 5280, 4.1.2.2: positive, at most 20 octets, unique for the issuer.
	serial := make([]byte, 16)
	if _, err := io.ReadFull(ca.rand, serial); err != nil {
		return nil, fmt.Errorf("draw the serial number of %q: %w", name, err)
	}
	template.SerialNumber = new(big.Int).SetBytes(append([]byte{1}, serial...))
	template.NotBefore = now.Add(-backdate).UTC()
	template.NotAfter = now.Add(ttl).UTC()
	parent := template
	if ca.Cert != nil {
		parent = ca.Cert
		if template.NotAfter.After(parent.NotAfter) {
			template.NotAfter = parent.NotAfter
		}
		if !template.NotAfter.After(now) {
			return nil, fmt.Errorf("issue a certificate for %q: CA %q ended on %s; make a new CA", name, parent.Subject.CommonName, parent.NotAfter.Format(time.DateOnly))
		}
	}
	der, err := x509.CreateCertificate(ca.rand, template, parent, &key.PublicKey, ca.Key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %q: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read back the certificate of %q: %w", name, err)
	}
	return cert, nil
}

// Fingerprint is the SHA-256 of the certificate's DER, in lower-case hex.
func Fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}
