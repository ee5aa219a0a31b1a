package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"machined/api/client"
	"machined/api/pki"
)

const (
	bundleVariable   = "MACHINECTL_BUNDLE"
	endpointVariable = "MACHINECTL_ENDPOINT"
)

// nodeFlags are the global flags that say which node, and how to reach it.
type nodeFlags struct {
	target
	context string
	timeout time.Duration
}

// target is a node and what opens it.
type target struct {
	bundle, endpoint, serverName string
}

func (f *nodeFlags) register(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&f.bundle, "bundle", "", "directory with ca.crt, client.crt and client.key")
	flags.StringVar(&f.endpoint, "endpoint", "", "node: https://HOST[:PORT]")
	flags.StringVar(&f.context, "context", "", "context of the config file, instead of the current one")
	flags.StringVar(&f.serverName, "server-name", "", "name in the node's certificate, instead of the one that all have")
	flags.DurationVar(&f.timeout, "timeout", client.DefaultTimeout, "time for a call, connecting included")
	_ = root.MarkPersistentFlagDirname("bundle") // fails for an unknown flag alone
	_ = root.RegisterFlagCompletionFunc("context", completeContexts)
}

// dial returns a client for the node that the flags, the environment and the
// config file name.
func (f *nodeFlags) dial(cmd *cobra.Command) (*client.Client, error) {
	if f.timeout <= 0 {
		return nil, usagef("--timeout is %s; give more than 0", f.timeout)
	}
	t, err := f.resolve()
	if err != nil {
		return nil, err
	}
	bundle, err := openBundle(cmd, t.bundle)
	if err != nil {
		return nil, err
	}
	return client.Dial(t.endpoint, bundle, client.Options{ServerName: t.serverName, Timeout: f.timeout, BundleDir: t.bundle})
}

// openBundle loads a bundle and shows the faults that do not prevent its use.
func openBundle(cmd *cobra.Command, dir string) (*pki.Bundle, error) {
	b, err := pki.LoadBundle(dir)
	if errors.Is(err, pki.ErrNone) {
		return nil, fmt.Errorf("%w; name a directory of a client's files, such as `machinectl pki new DIR` makes in DIR/bundles", err)
	} else if err != nil {
		return nil, err
	}
	// On Windows all files look as if others could read them.
	if runtime.GOOS != "windows" {
		for _, w := range b.Warnings {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
		}
	}
	return b, nil
}

// resolve finds each setting where it is given first: the flags, of which
// --context is one, the environment, the current context.
func (f *nodeFlags) resolve() (target, error) {
	t := f.target
	if f.context == "" {
		t.fill(target{bundle: os.Getenv(bundleVariable), endpoint: os.Getenv(endpointVariable)})
	}
	if t.bundle != "" && t.endpoint != "" {
		return t, nil
	}
	file, err := loadContexts()
	if err != nil {
		return target{}, err
	}
	if err := t.fillFrom(file, f.context); err != nil {
		return target{}, err
	}
	// A context names both.
	if f.context != "" {
		return t, nil
	}
	return t, t.complete()
}

// fill takes what is not set yet. The server name belongs to the endpoint.
func (t *target) fill(from target) {
	if t.bundle == "" {
		t.bundle = from.bundle
	}
	if t.endpoint == "" {
		t.endpoint = from.endpoint
		if t.serverName == "" {
			t.serverName = from.serverName
		}
	}
}

func (t *target) fillFrom(file *contextsFile, name string) error {
	if name == "" {
		if name = file.Current; name == "" {
			return nil
		}
	}
	c, err := file.find(name)
	if err != nil {
		return err
	}
	t.fill(target{bundle: c.Bundle, endpoint: c.Endpoint, serverName: c.ServerName})
	return nil
}

func (t *target) complete() error {
	const how = "or make a context with `machinectl config merge BUNDLE_DIR --name NAME --endpoint https://HOST:50000`"
	switch {
	case t.bundle == "" && t.endpoint == "":
		return usagef("no node is named: give --bundle DIR and --endpoint https://HOST:50000, %s", how)
	case t.bundle == "":
		return usagef("no bundle is named for %s: give --bundle DIR, %s", t.endpoint, how)
	case t.endpoint == "":
		return usagef("no node is named for the bundle %s: give --endpoint https://HOST:50000, %s", t.bundle, how)
	}
	return nil
}
