package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/spf13/cobra"

	"machined/api/client"
	"machined/api/pki"
)

func newConfigMerge(f *nodeFlags) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "merge BUNDLE_DIR --name NAME --endpoint https://HOST[:PORT]",
		Short: "Add a context, or replace the bundle or endpoint of one",
		Long: "Copy a bundle beside the config file, and add a context that uses it. A context of\n" +
			"that name gets the new bundle, and keeps its endpoint unless one is given. The first\n" +
			"context becomes the current one.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			told, err := merge(cmd, nodeContext{Name: name, Endpoint: f.endpoint, Bundle: args[0], ServerName: f.serverName})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), told)
			return err
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the context")
	if err := cmd.MarkFlagRequired("name"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

// merge copies the bundle of c, adds or updates the context, and says what it
// did. The file changes after the new bundle is whole and before the old one is
// removed, so that a context has a bundle at all times.
func merge(cmd *cobra.Command, c nodeContext) (string, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`).MatchString(c.Name) {
		return "", usagef("%q is no name for a context; use at most 64 letters, digits, dots, dashes and underscores", c.Name)
	}
	file, err := loadContexts()
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(file.Contexts, func(o nodeContext) bool { return o.Name == c.Name })
	if i >= 0 && c.Endpoint == "" {
		c.Endpoint = file.Contexts[i].Endpoint
		if c.ServerName == "" {
			c.ServerName = file.Contexts[i].ServerName
		}
	}
	if c.Endpoint == "" {
		return "", usagef("context %s is new: give --endpoint https://HOST[:PORT] too", c.Name)
	}
	if c.Bundle, err = adopt(cmd, c); err != nil {
		return "", err
	}
	told, old := "added context "+c.Name, ""
	if i >= 0 {
		told, old = "updated context "+c.Name, file.Contexts[i].Bundle
		file.Contexts[i] = c
	} else {
		file.Contexts = append(file.Contexts, c)
	}
	if file.Current == "" {
		file.Current = c.Name
	}
	if err := file.save(); err != nil {
		return "", err
	}
	file.discard(old)
	if file.Current == c.Name {
		told += ", the current one"
	}
	return told, nil
}

// adopt copies the bundle of c beside the config file, and returns the copy's
// directory. Its name has a hash of the certificates: another bundle is another
// directory.
func adopt(cmd *cobra.Command, c nodeContext) (string, error) {
	bundle, err := openBundle(cmd, c.Bundle)
	if err != nil {
		return "", err
	}
	// Nothing is sent: this checks the endpoint and the certificate's validity.
	conn, err := client.Dial(c.Endpoint, bundle, client.Options{BundleDir: c.Bundle})
	if err != nil {
		return "", err
	}
	if err := conn.Close(); err != nil {
		return "", err
	}
	dir, err := bundleStore()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(slices.Concat(bundle.CACert.Raw, bundle.Cert.Raw))
	dir = filepath.Join(dir, c.Name+"-"+hex.EncodeToString(sum[:6]))
	if _, err := pki.LoadBundle(dir); !errors.Is(err, pki.ErrNone) {
		return dir, err // it is there already, or broken
	}
	return dir, pki.WriteBundle(dir, bundle)
}

// bundleStore is the directory of the bundles that contexts use.
func bundleStore() (string, error) {
	path, err := contextsPath()
	return filepath.Join(filepath.Dir(path), "bundles"), err
}

// discard removes a bundle that no context uses any more, if it is a copy of
// adopt's. What cannot be removed does no harm.
func (f *contextsFile) discard(dir string) {
	store, err := bundleStore()
	if err != nil || filepath.Dir(dir) != store {
		return
	}
	if slices.ContainsFunc(f.Contexts, func(c nodeContext) bool { return c.Bundle == dir }) {
		return
	}
	for _, name := range []string{pki.ClientKeyFile, pki.ClientCertFile, pki.CACertFile} {
		_ = os.Remove(filepath.Join(dir, name))
	}
	_ = os.Remove(dir)
}
