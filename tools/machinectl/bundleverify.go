package main

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"machined/images/bundle"
	"machined/tools/progress"
)

func newBundleVerify() *cobra.Command {
	var keys []string
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Read a whole bundle and check its hashes and signatures",
		Long: "Read a whole bundle and check it as a node does: that it is whole, that each file has\n" +
			"its SHA-256 and, with --key, that it is signed by one of these keys.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			trusted, err := parsePublicKeys(keys)
			if err != nil {
				return err
			}
			says, err := verifyBundle(args[0], trusted, cmd.ErrOrStderr())
			if err != nil {
				return fmt.Errorf("verify %s: %w", args[0], err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is good: %s\n", args[0], says)
			return err
		},
	}
	cmd.Flags().StringArrayVar(&keys, "key", nil, "public `key` that is trusted, as machine.upgrade.keys has it; may be given more than once")
	return cmd
}

// verifyBundle reads a bundle to its end, and says what it is.
func verifyBundle(path string, trusted []ed25519.PublicKey, stderr io.Writer) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := bundle.NewReader(f)
	if err != nil {
		return "", err
	}
	if err := b.Verify(trusted); err != nil {
		return "", err
	}
	m := b.Manifest()
	if err := drainBundle(b, m.Size(), progress.Bytes(stderr, "reading "+path)); err != nil {
		return "", err
	}
	return fmt.Sprintf("version %s for %s, %d files, %s", m.Version, m.Board, len(m.Files), signedBy(b, trusted)), nil
}

// drainBundle reads all files, and tells how far it has come after each piece.
func drainBundle(b *bundle.Reader, total int64, tell func(done, total int64)) error {
	piece := make([]byte, 256<<10)
	var done int64
	for {
		_, err := b.Next()
		if err == io.EOF {
			return nil
		}
		for err == nil {
			var n int
			n, err = b.Read(piece)
			done += int64(n)
			if tell != nil {
				tell(done, total)
			}
		}
		if err != io.EOF {
			return err
		}
	}
}

// signedBy says what is known of the signatures.
func signedBy(b *bundle.Reader, trusted []ed25519.PublicKey) string {
	if len(b.Signers()) == 0 {
		return "not signed"
	}
	var good []bundle.KeyID
	for _, key := range trusted {
		if b.Verify([]ed25519.PublicKey{key}) == nil {
			good = append(good, bundle.KeyIDOf(key))
		}
	}
	if len(good) > 0 {
		return "signed by " + signerNames(good)
	}
	return "signatures by " + signerNames(b.Signers()) + " not checked; give --key"
}
