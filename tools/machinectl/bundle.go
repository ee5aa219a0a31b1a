package main

import (
	"crypto/ed25519"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"machined/board"
	"machined/images"
	"machined/images/bundle"
	"machined/images/parts"
	"machined/tools/progress"
)

func newBundle() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Build and check what nodes are upgraded with",
		Long: "Build and check bundles, which nodes are upgraded with: a version of machined for a\n" +
			"board in one file, signed or not. They have nothing to do with --bundle, which names\n" +
			"the certificates of a client.",
	}
	cmd.AddCommand(newBundleBuild(), newBundleInspect(), newBundleVerify(), newBundleKeygen())
	return cmd
}

// bundleFlags are the flags of `bundle build`.
type bundleFlags struct {
	board, out, parts, minVersion string
	keys                          []string
}

func newBundleBuild() *cobra.Command {
	var f bundleFlags
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build a bundle from the parts, and print its SHA-256",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			built, err := buildBundle(f, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", built.SHA256, built.Path)
			return err
		},
	}
	cmd.Flags().StringVar(&f.board, "board", "", "board: "+board.Names())
	cmd.Flags().StringVar(&f.out, "out", "", "bundle `file` to write")
	cmd.Flags().StringVar(&f.parts, "parts", "build/parts", "`directory` that make parts filled")
	cmd.Flags().StringVar(&f.minVersion, "min-version", "", "oldest `version` that may be upgraded by the bundle, such as v1.2.3; none for any")
	cmd.Flags().StringArrayVar(&f.keys, "key", nil, "private key `file` of bundle keygen to sign with; may be given more than once")
	_ = cmd.MarkFlagRequired("board")
	_ = cmd.MarkFlagRequired("out")
	return cmd
}

func buildBundle(f bundleFlags, stderr io.Writer) (images.Bundle, error) {
	b, ok := board.ByName(f.board)
	if !ok {
		return images.Bundle{}, usagef("unknown board %q; known are %s", f.board, board.Names())
	}
	if f.minVersion != "" && !bundle.Comparable(f.minVersion) {
		return images.Bundle{}, usagef("--min-version is %q, which other versions cannot be compared with; use one such as v1.2.3", f.minVersion)
	}
	var keys []ed25519.PrivateKey
	for _, path := range f.keys {
		key, err := readSigningKey(path)
		if err != nil {
			return images.Bundle{}, err
		}
		keys = append(keys, key)
	}
	store, err := parts.Open(f.parts)
	if err != nil {
		return images.Bundle{}, err
	}
	return images.BuildBundle(f.out, images.BundleOptions{
		Board: b, Store: store, MinVersion: f.minVersion, Keys: keys, Progress: progress.Bytes(stderr, "writing "+f.out),
	})
}
