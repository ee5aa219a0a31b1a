// Package pkidir keeps a PKI on the laptop: ca/ stays there, bundles/NAME go to
// people, nodes/NAME go into images.
package pkidir

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"machined/api/pki"
)

// The directories of a PKI.
const (
	CA      = "ca"
	Bundles = "bundles"
	nodes   = "nodes"
)

// New makes a CA named name in dir, and client bundles for an admin, an
// operator and a reader that are valid for ttl. It refuses a directory that
// holds a PKI or the rest of one: another CA would lock the owner of its nodes
// out. On an error nothing is left in dir.
func New(dir, name string, ttl time.Duration, now time.Time) (err error) {
	for _, sub := range []string{CA, Bundles, nodes} {
		if _, err := os.Lstat(filepath.Join(dir, sub)); err == nil {
			return fmt.Errorf("make a PKI in %s: it holds %s already; choose another directory", dir, sub)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("make a PKI in %s: %w", dir, err)
		}
	}
	defer func() {
		if err != nil {
			os.RemoveAll(filepath.Join(dir, CA))
			os.RemoveAll(filepath.Join(dir, Bundles))
			err = fmt.Errorf("make a PKI in %s: %w", dir, err)
		}
	}()
	if err := os.MkdirAll(filepath.Join(dir, Bundles), 0o700); err != nil {
		return err
	}
	ca, err := pki.NewCA(name, now, rand.Reader)
	if err != nil {
		return err
	}
	if err := pki.WriteCA(filepath.Join(dir, CA), ca); err != nil {
		return err
	}
	for _, b := range []struct {
		name string
		role pki.Role
	}{{"admin", pki.RoleAdmin}, {"operator", pki.RoleOperator}, {"reader", pki.RoleReader}} {
		bundle, err := ca.IssueClient(b.name, []pki.Role{b.role}, ttl, now)
		if err != nil {
			return err
		}
		if err := pki.WriteBundle(filepath.Join(dir, Bundles, b.name), bundle); err != nil {
			return err
		}
	}
	return nil
}

// Node returns the files of a node's identity. It is issued once a host
// name and kept in the PKI's directory, so that building an image again gives
// the same image and the same node.
func Node(dir, hostname string, embedCA bool, now time.Time) (map[string][]byte, error) {
	if hostname == "" || hostname == "." || hostname == ".." || filepath.Base(hostname) != hostname {
		return nil, fmt.Errorf("issue a certificate for node %q: that is no host name", hostname)
	}
	nodeDir := filepath.Join(dir, nodes, hostname)
	if _, err := pki.LoadNode(nodeDir); errors.Is(err, pki.ErrNone) {
		if err := issueNode(dir, nodeDir, hostname, now); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	files, err := nodeFiles(dir, nodeDir, embedCA)
	if err != nil {
		return nil, err
	}
	// A node that trusts another CA could not be reached with this one's
	// bundles. The CA's key is not needed for a node that has its own, and may
	// be kept elsewhere.
	caCert, err := os.ReadFile(filepath.Join(dir, CA, pki.CACertFile))
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(caCert, files[pki.CACertFile]) {
		return nil, fmt.Errorf("the certificate in %s is from another CA than the one in %s; remove it for a new one", nodeDir, filepath.Join(dir, CA))
	}
	return files, nil
}

func nodeFiles(dir, nodeDir string, embedCA bool) (map[string][]byte, error) {
	paths := map[string]string{}
	for _, n := range []string{pki.CACertFile, pki.NodeCertFile, pki.NodeKeyFile} {
		paths[n] = filepath.Join(nodeDir, n)
	}
	if embedCA {
		paths[pki.CAKeyFile] = filepath.Join(dir, CA, pki.CAKeyFile)
	}
	files := make(map[string][]byte)
	for name, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files[name] = b
	}
	return files, nil
}

func issueNode(dir, nodeDir, hostname string, now time.Time) error {
	ca, err := pki.LoadCA(filepath.Join(dir, CA))
	if err != nil {
		return fmt.Errorf("issue a certificate for node %s; `machinectl pki new %s` makes a CA: %w", hostname, dir, err)
	}
	node, err := ca.IssueNode([]string{hostname}, now)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(nodeDir), 0o700); err != nil {
		return err
	}
	return pki.WriteNode(nodeDir, node)
}
