package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"machined/images/bundle"
)

// pemPrivateKey is the label of a PKCS #8 key (RFC 7468, section 10).
const pemPrivateKey = "PRIVATE KEY"

func newBundleKeygen() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "Make a key that bundles are signed with, and print its public key",
		Long: "Make an Ed25519 key that bundles are signed with (PKCS #8 in PEM, as of\n" +
			"`openssl genpkey -algorithm ed25519`), and print its public key, as machine.upgrade.keys\n" +
			"of a node's config takes it. A file that is there is never overwritten.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			public, private, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				return fmt.Errorf("make an Ed25519 key: %w", err)
			}
			if err := writeSigningKey(out, private); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "private key %s in %s; keep it off the nodes and backed up\n", bundle.KeyIDOf(public), out)
			_, err = fmt.Fprintln(cmd.OutOrStdout(), publicKeyText(public))
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "`file` for the private key; it must not exist")
	_ = cmd.MarkFlagRequired("out")
	return cmd
}

// publicKeyText is a key as machine.upgrade.keys has it: 32 bytes in base64.
func publicKeyText(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }

// parsePublicKeys reads the values of --key.
func parsePublicKeys(list []string) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey
	for _, text := range list {
		key, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || len(key) != ed25519.PublicKeySize {
			return nil, usagef("--key is %q; want an Ed25519 public key as `machinectl bundle keygen` prints it, 32 bytes in base64", text)
		}
		keys = append(keys, ed25519.PublicKey(key))
	}
	return keys, nil
}

// writeSigningKey writes a key to a new file that its owner alone can read.
func writeSigningKey(path string, key ed25519.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the key for %s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("write a new key to %s: there is a file already, perhaps with the only copy of a key; name another: %w", path, err)
	}
	if err != nil {
		return fmt.Errorf("write a new key: %w", err)
	}
	err = pem.Encode(f, &pem.Block{Type: pemPrivateKey, Bytes: der})
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = os.Remove(path)
		return fmt.Errorf("write a new key to %s: %w", path, err)
	}
	return nil
}

// readSigningKey reads a key that writeSigningKey or OpenSSL has written.
func readSigningKey(path string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the key to sign with: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemPrivateKey {
		return nil, fmt.Errorf("read the key to sign with, %s: it is no private key in PEM; `machinectl bundle keygen` makes one", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the key to sign with, %s: %w", path, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("read the key to sign with, %s: it is no Ed25519 key; `machinectl bundle keygen` makes one", path)
	}
	return key, nil
}
