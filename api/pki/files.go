package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// The names of the files in the directories of a node, a client and an
// authority. Certificates and keys are PEM (RFC 7468), keys PKCS #8 (RFC 5958).
const (
	CACertFile     = "ca.crt"
	CAKeyFile      = "ca.key"
	NodeCertFile   = "node.crt"
	NodeKeyFile    = "node.key"
	ClientCertFile = "client.crt"
	ClientKeyFile  = "client.key"
)

type file struct {
	name string
	data []byte
	mode fs.FileMode
}

// WriteNode writes a node's directory: ca.crt, node.crt, node.key, and ca.key if
// the node has its CA.
//
// WriteNode, WriteBundle and WriteCA make directories with mode 0700 and keys
// with 0600. A directory that does not exist appears whole or not at all, also
// when the power fails. Into one that exists, files go one by one, each whole,
// keys before certificates, so that what a power cut leaves is a PartialError to
// the loader. Files that are there are never replaced: the error matches
// fs.ErrExist.
func WriteNode(dir string, n *Node) error {
	files, err := identityFiles(n.Identity, NodeKeyFile, NodeCertFile)
	if err != nil {
		return fmt.Errorf("write the node PKI to %s: %w", dir, err)
	}
	if n.CA != nil {
		key, err := keyFile(CAKeyFile, n.CA.Key)
		if err != nil {
			return fmt.Errorf("write the node PKI to %s: %w", dir, err)
		}
		files = append([]file{key}, files...)
	}
	return writeSet(dir, append(files, certFile(CACertFile, n.CACert)))
}

// WriteBundle writes a client's directory: ca.crt, client.crt, client.key. See
// WriteNode for what a power cut can leave.
func WriteBundle(dir string, b *Bundle) error {
	files, err := identityFiles(b.Identity, ClientKeyFile, ClientCertFile)
	if err != nil {
		return fmt.Errorf("write the client bundle to %s: %w", dir, err)
	}
	return writeSet(dir, append(files, certFile(CACertFile, b.CACert)))
}

// WriteCA writes an authority's directory: ca.crt, ca.key. See WriteNode for
// what a power cut can leave.
func WriteCA(dir string, ca *CA) error {
	files, err := identityFiles(ca.Identity, CAKeyFile, CACertFile)
	if err != nil {
		return fmt.Errorf("write the CA to %s: %w", dir, err)
	}
	return writeSet(dir, files)
}

func identityFiles(id Identity, keyName, certName string) ([]file, error) {
	key, err := keyFile(keyName, id.Key)
	return []file{key, certFile(certName, id.Cert)}, err
}

func keyFile(name string, key *ecdsa.PrivateKey) (file, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return file{}, fmt.Errorf("encode the key for %s: %w", name, err)
	}
	return file{name, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600}, nil
}

func certFile(name string, cert *x509.Certificate) file {
	return file{name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), 0o644}
}

func writeSet(dir string, files []file) error {
	dir = filepath.Clean(dir)
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("write %s: %w; keys are not replaced, remove the old ones first or use another directory", path, fs.ErrExist)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("write the PKI to %s: %w", dir, err)
		}
	}
	if _, err := os.Lstat(dir); err == nil {
		return writeFiles(dir, files)
	}
	return writeStaged(dir, files)
}

// writeStaged builds a directory beside dir and renames it.
func writeStaged(dir string, files []file) error {
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return fmt.Errorf("make the parent directory of %s: %w", dir, err)
	}
	stage := dir + ".new"
	// What an earlier power cut left was never used by anyone.
	for _, f := range files {
		_ = os.Remove(filepath.Join(stage, f.name))
		_ = os.Remove(filepath.Join(stage, temporary(f.name)))
	}
	_ = os.Remove(stage)
	if err := os.Mkdir(stage, 0o700); err != nil {
		return fmt.Errorf("make %s, from which %s is renamed: %w", stage, dir, err)
	}
	if err := writeFiles(stage, files); err != nil {
		return err
	}
	if err := os.Rename(stage, dir); err != nil {
		return fmt.Errorf("put the PKI in its place: %w", err)
	}
	return syncDir(parent)
}

func writeFiles(dir string, files []file) error {
	for _, f := range files {
		if err := writeFile(dir, f); err != nil {
			return err
		}
	}
	return nil
}

func temporary(name string) string { return "." + name + ".tmp" }

// writeFile makes the file appear whole: its data is on the disk before its
// name is, and its name before the function returns.
func writeFile(dir string, f file) (err error) {
	temp, path := filepath.Join(dir, temporary(f.name)), filepath.Join(dir, f.name)
	// A leftover would keep the mode that it has.
	_ = os.Remove(temp)
	out, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = out.Write(f.data)
	err = errors.Join(err, out.Sync(), out.Close())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp)
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncDir(dir)
}

// syncDir makes new names in dir last. Windows cannot flush a directory, and
// does not need it for a laptop's copy.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("flush directory %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("flush directory %s: %w", dir, err)
	}
	return nil
}
