package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/containerd/containerd/v2/client"

	"machined/runtime/importer"
)

const (
	defaultSocket = "/run/containerd/containerd.sock"
	// importMemory is what importing may use, in bytes. Layers pass through in
	// pieces of 1 MiB.
	importMemory = 24 << 20
)

// importCommand imports images, each of which is told on a line of its own:
// name and digest. One that fails does not keep the others out.
func importCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("import", flag.ContinueOnError)
	flags.SetOutput(stderr)
	socket := flags.String("address", defaultSocket, "containerd's socket")
	if err := flags.Parse(args); err != nil {
		return &usageError{err}
	}
	if flags.NArg() == 0 {
		return &usageError{errors.New("import takes OCI image layouts and tarballs, one or more")}
	}
	debug.SetMemoryLimit(importMemory)
	debug.SetGCPercent(25)
	c, err := client.New(*socket, client.WithDefaultNamespace(importer.Namespace))
	if err != nil {
		return fmt.Errorf("connect to containerd at %s; is it running: %w", *socket, err)
	}
	defer c.Close()
	var errs []error
	for _, path := range flags.Args() {
		found, err := importer.Import(ctx, c, path)
		for _, i := range found {
			fmt.Fprintf(stdout, "%s %s\n", i.Name, i.Digest)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("import %s: %w", path, err))
		}
	}
	return errors.Join(errs...)
}
