// Package pkidir keeps a PKI on the laptop: ca/ stays there, bundles/NAME go to
// people, nodes/NAME go into images.
package pkidir

import (
	"crypto/rand"
	"errors"
	"fmt"
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
// holds a CA: its nodes would lock its owner out.
func New(dir, name string, ttl time.Duration, now time.Time) error {
	if _, err := pki.LoadCA(filepath.Join(dir, CA)); err == nil {
		return fmt.Errorf("make a PKI in %s: it holds a CA already; choose another directory", dir)
	} else if !errors.Is(err, pki.ErrNone) {
		return fmt.Errorf("make a PKI in %s: %w", dir, err)
	}
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
	nodeDir := filepath.Join(dir, nodes, hostname)
	if _, err := pki.LoadNode(nodeDir); errors.Is(err, pki.ErrNone) {
		if err := issueNode(dir, nodeDir, hostname, now); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for _, n := range []string{pki.CACertFile, pki.NodeCertFile, pki.NodeKeyFile} {
		b, err := os.ReadFile(filepath.Join(nodeDir, n))
		if err != nil {
			return nil, err
		}
		files[n] = b
	}
	if embedCA {
		key, err := os.ReadFile(filepath.Join(dir, CA, pki.CAKeyFile))
		if err != nil {
			return nil, fmt.Errorf("embed the CA's key: %w", err)
		}
		files[pki.CAKeyFile] = key
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
