package pki

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

type constError string

func (e constError) Error() string { return string(e) }

// ErrNone is matched by the errors of the loaders when not one of the files is
// there. Such errors match fs.ErrNotExist too.
const ErrNone = constError("no PKI here")

// PartialError says that some of the files are there and some are not. New keys
// in their place would lock out every client, so that this is for a person to
// decide.
type PartialError struct {
	Dir              string
	Present, Missing []string
}

// Error names the files and what to do.
func (e *PartialError) Error() string {
	return fmt.Sprintf("the PKI in %s is partial: it has %s and lacks %s; restore what is missing, or remove the rest to begin anew",
		e.Dir, strings.Join(e.Present, ", "), strings.Join(e.Missing, ", "))
}

// LoadNode reads a node's directory and checks that all belongs together.
//
// LoadNode, LoadBundle and LoadCA return an error that matches ErrNone if there
// is nothing, a *PartialError if something is missing, and otherwise an error
// that names the file at fault. Validity times are not looked at: the clock may
// not be set yet, and TLS checks them. A key that others may read is a warning
// and no error, because a FAT file system has no permissions to get right.
func LoadNode(dir string) (*Node, error) { return LoadNodeFS(os.DirFS(dir), dir) }

// LoadNodeFS is LoadNode for the root of a file system; name is its name in
// messages.
func LoadNodeFS(fsys fs.FS, name string) (*Node, error) {
	s, err := readSet(fsys, name, []string{CACertFile, NodeCertFile, NodeKeyFile}, CAKeyFile)
	if err != nil {
		return nil, err
	}
	n := &Node{CACert: s.authority()}
	n.Identity = s.leaf(NodeCertFile, NodeKeyFile, n.CACert, x509.ExtKeyUsageServerAuth, "a server")
	if s.err == nil && !slices.Contains(n.Cert.DNSNames, NodeServerName) {
		s.fail(NodeCertFile, fmt.Errorf("it is not for the name %s; issue a new one", NodeServerName))
	}
	if s.files[CAKeyFile] != nil {
		n.CA = &CA{Identity: Identity{Cert: n.CACert, Key: s.key(CAKeyFile, CACertFile, n.CACert)}, rand: rand.Reader}
	}
	n.Warnings = s.warnings
	if s.err != nil {
		return nil, s.err
	}
	return n, nil
}

// LoadBundle reads a client's directory; see LoadNode for the errors.
func LoadBundle(dir string) (*Bundle, error) { return LoadBundleFS(os.DirFS(dir), dir) }

// LoadBundleFS is LoadBundle for the root of a file system; name is its name in
// messages.
func LoadBundleFS(fsys fs.FS, name string) (*Bundle, error) {
	s, err := readSet(fsys, name, []string{CACertFile, ClientCertFile, ClientKeyFile})
	if err != nil {
		return nil, err
	}
	b := &Bundle{CACert: s.authority()}
	b.Identity = s.leaf(ClientCertFile, ClientKeyFile, b.CACert, x509.ExtKeyUsageClientAuth, "a client")
	b.Warnings = s.warnings
	if s.err != nil {
		return nil, s.err
	}
	return b, nil
}

// LoadCA reads an authority's directory; see LoadNode for the errors. The
// authority's random numbers are those of crypto/rand.
func LoadCA(dir string) (*CA, error) { return LoadCAFS(os.DirFS(dir), dir) }

// LoadCAFS is LoadCA for the root of a file system; name is its name in
// messages.
func LoadCAFS(fsys fs.FS, name string) (*CA, error) {
	s, err := readSet(fsys, name, []string{CACertFile, CAKeyFile})
	if err != nil {
		return nil, err
	}
	ca := &CA{rand: rand.Reader}
	ca.Cert = s.authority()
	ca.Key = s.key(CAKeyFile, CACertFile, ca.Cert)
	ca.Warnings = s.warnings
	if s.err != nil {
		return nil, s.err
	}
	return ca, nil
}

// set is the files of a directory. Its first error sticks, and its methods do
// nothing after it.
type set struct {
	dir      string
	files    map[string][]byte
	warnings []string
	err      error
}

func readSet(fsys fs.FS, dir string, required []string, optional ...string) (*set, error) {
	s := &set{dir: dir, files: map[string][]byte{}}
	partial := &PartialError{Dir: dir}
	for _, name := range slices.Concat(required, optional) {
		data, err := s.read(fsys, name)
		switch {
		case err == nil:
			s.files[name] = data
			partial.Present = append(partial.Present, name)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("read %s of the PKI in %s: %w", name, dir, err)
		case slices.Contains(required, name):
			partial.Missing = append(partial.Missing, name)
		}
	}
	switch {
	case len(partial.Present) == 0:
		return nil, fmt.Errorf("load %s from %s: %w (%w)", strings.Join(required, ", "), dir, ErrNone, fs.ErrNotExist)
	case len(partial.Missing) > 0:
		return nil, partial
	}
	return s, nil
}

// read returns a file, which is never nil without an error.
func (s *set) read(fsys fs.FS, name string) ([]byte, error) {
	const most = 64 << 10
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is %v and no file", info.Mode().Type())
	}
	if mode := info.Mode().Perm(); strings.HasSuffix(name, ".key") && mode&0o077 != 0 {
		s.warnings = append(s.warnings, fmt.Sprintf("others may read %s in %s (mode %#o); on a file system with permissions, chmod it to 0600", name, s.dir, mode))
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && len(data) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return append([]byte{}, data...), err
}

func (s *set) fail(name string, err error) {
	if s.err == nil {
		s.err = fmt.Errorf("use %s of the PKI in %s: %w", name, s.dir, err)
	}
}

// authority checks ca.crt.
func (s *set) authority() *x509.Certificate {
	cert := s.cert(CACertFile)
	if s.err != nil {
		return nil
	}
	if !cert.IsCA || !cert.BasicConstraintsValid {
		s.fail(CACertFile, errors.New("it is no certificate of an authority; use the one that signed the others"))
	} else if err := cert.CheckSignatureFrom(cert); err != nil {
		s.fail(CACertFile, fmt.Errorf("it is not signed by itself: %w; use a root certificate", err))
	}
	return cert
}

// leaf checks a certificate that ca signed, and its key.
func (s *set) leaf(certName, keyName string, ca *x509.Certificate, usage x509.ExtKeyUsage, who string) Identity {
	cert := s.cert(certName)
	if s.err != nil {
		return Identity{}
	}
	if err := cert.CheckSignatureFrom(ca); err != nil {
		s.fail(certName, fmt.Errorf("it is not signed by %s: %w; use files of one set", CACertFile, err))
	}
	if !slices.Contains(cert.ExtKeyUsage, usage) {
		s.fail(certName, fmt.Errorf("it is not for %s (extended key usage); issue one that is", who))
	}
	return Identity{Cert: cert, Key: s.key(keyName, certName, cert)}
}

func (s *set) cert(name string) *x509.Certificate {
	if s.err != nil {
		return nil
	}
	der, err := decodePEM(s.files[name], "CERTIFICATE")
	if err != nil {
		s.fail(name, err)
		return nil
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		s.fail(name, fmt.Errorf("read the certificate: %w; restore the file", err))
	}
	return cert
}

// key reads a private key and checks that it is the certificate's.
func (s *set) key(name, certName string, cert *x509.Certificate) *ecdsa.PrivateKey {
	if s.err != nil {
		return nil
	}
	key, err := parseKey(s.files[name])
	if err != nil {
		s.fail(name, err)
		return nil
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		s.fail(name, fmt.Errorf("it is not the key of %s; use files of one set", certName))
	}
	return key
}
