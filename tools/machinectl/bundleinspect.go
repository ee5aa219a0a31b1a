package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"machined/images/bundle"
)

func newBundleInspect() *cobra.Command {
	out := formatText
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Print what a bundle says of itself: version, board, signatures, files",
		Long: "Print what a bundle says of itself: version, board, signatures, files. Only the manifest\n" +
			"is read, and no signature is checked; `machinectl bundle verify` does both.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return fmt.Errorf("inspect a bundle: %w", err)
			}
			defer f.Close()
			b, err := bundle.NewReader(f)
			if err != nil {
				return fmt.Errorf("inspect %s: %w", args[0], err)
			}
			if out == formatJSON || out == formatYAML {
				return writeTree(cmd.OutOrStdout(), out, bundleObject(b))
			}
			return writeBundle(cmd.OutOrStdout(), b)
		},
	}
	out.register(cmd)
	return cmd
}

func writeBundle(w io.Writer, b *bundle.Reader) error {
	m := b.Manifest()
	minimum := m.MinVersion
	if minimum == "" {
		minimum = "any"
	}
	rows := [][]string{
		{"version", cell(m.Version)}, {"board", cell(m.Board)}, {"built", buildTime(m)}, {"for nodes of", cell(minimum)},
		{"arguments", cell(m.Arguments)}, {"signed by", signerNames(b.Signers())},
		{"size", fmt.Sprintf("%d bytes in %d files", m.Size(), len(m.Files))},
	}
	if err := writeTable(w, rows); err != nil {
		return err
	}
	rows = [][]string{{"", "", ""}, {"FILE", "SIZE", "SHA-256"}}
	for _, f := range m.Files {
		rows = append(rows, []string{cell(f.Path), strconv.FormatInt(f.Size, 10), hex.EncodeToString(f.SHA256[:])})
	}
	return writeTable(w, rows)
}

func buildTime(m *bundle.Manifest) string {
	return time.Unix(m.BuildTime, 0).UTC().Format(time.RFC3339)
}

// signerNames lists keys for a person.
func signerNames(ids []bundle.KeyID) string {
	if len(ids) == 0 {
		return "nobody"
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.String()
	}
	return strings.Join(names, ", ")
}

func bundleObject(b *bundle.Reader) object {
	m := b.Manifest()
	signatures, files := []object{}, []object{}
	for _, id := range b.Signers() {
		signatures = append(signatures, object{{"key_id", id.String()}})
	}
	for _, f := range m.Files {
		files = append(files, object{{"path", f.Path}, {"size", strconv.FormatInt(f.Size, 10)}, {"sha256", hex.EncodeToString(f.SHA256[:])}})
	}
	return object{
		{"version", m.Version}, {"board", m.Board}, {"build_time", buildTime(m)}, {"min_version", m.MinVersion}, {"arguments", m.Arguments},
		{"size", strconv.FormatInt(m.Size(), 10)}, {"signatures", signatures}, {"files", files},
	}
}
