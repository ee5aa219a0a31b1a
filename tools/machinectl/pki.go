package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"machined/api/pki"
)

// The layout of a PKI directory on the laptop: ca/ stays there, bundles/NAME
// go to people.
const (
	caDir      = "ca"
	bundlesDir = "bundles"
)

func newPKI() *cobra.Command {
	cmd := &cobra.Command{Use: "pki", Short: "Make the keys and certificates of nodes and their clients"}
	cmd.AddCommand(newPKINew())
	return cmd
}

func newPKINew() *cobra.Command {
	var name string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "new DIR",
		Short: "Make a CA, and admin, operator and reader bundles",
		Long: "Make a CA in DIR/ca and client bundles in DIR/bundles/admin, operator and reader.\n" +
			"The CA's key stays in DIR; `machinectl image build --pki DIR` issues a certificate for each node.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := createPKI(args[0], name, ttl, time.Now()); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "CA in %s, bundles in %s; keep the CA's key off the nodes and backed up\n",
				filepath.Join(args[0], caDir), filepath.Join(args[0], bundlesDir))
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "machined", "name of the CA")
	cmd.Flags().DurationVar(&ttl, "ttl", 365*24*time.Hour, "how long client certificates are valid")
	return cmd
}

// createPKI refuses a directory that holds a CA: its nodes would lock its
// owner out.
func createPKI(dir, name string, ttl time.Duration, now time.Time) error {
	if _, err := pki.LoadCA(filepath.Join(dir, caDir)); err == nil {
		return fmt.Errorf("make a PKI in %s: it holds a CA already; choose another directory", dir)
	} else if !errors.Is(err, pki.ErrNone) {
		return fmt.Errorf("make a PKI in %s: %w", dir, err)
	}
	if err := os.MkdirAll(filepath.Join(dir, bundlesDir), 0o700); err != nil {
		return err
	}
	ca, err := pki.NewCA(name, now, rand.Reader)
	if err != nil {
		return err
	}
	if err := pki.WriteCA(filepath.Join(dir, caDir), ca); err != nil {
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
		if err := pki.WriteBundle(filepath.Join(dir, bundlesDir, b.name), bundle); err != nil {
			return err
		}
	}
	return nil
}

// nodePKI returns the files of a node's identity. It is issued once a host
// name and kept in the PKI's directory, so that building an image again gives
// the same image and the same node.
func nodePKI(dir, hostname string, embedCA bool, now time.Time) (map[string][]byte, error) {
	nodeDir := filepath.Join(dir, "nodes", hostname)
	names := []string{pki.CACertFile, pki.NodeCertFile, pki.NodeKeyFile}
	if _, err := pki.LoadNode(nodeDir); errors.Is(err, pki.ErrNone) {
		if err := issueNode(dir, nodeDir, hostname, now); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for _, n := range names {
		b, err := os.ReadFile(filepath.Join(nodeDir, n))
		if err != nil {
			return nil, err
		}
		files[n] = b
	}
	if embedCA {
		key, err := os.ReadFile(filepath.Join(dir, caDir, pki.CAKeyFile))
		if err != nil {
			return nil, fmt.Errorf("embed the CA's key: %w", err)
		}
		files[pki.CAKeyFile] = key
	}
	return files, nil
}

func issueNode(dir, nodeDir, hostname string, now time.Time) error {
	ca, err := pki.LoadCA(filepath.Join(dir, caDir))
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
