// Command machinectl drives machined nodes from a laptop, and builds and runs
// their images.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
)

// version is what `git describe` says; the build sets it.
var version = "devel"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// Exit codes: 1 is a failure, 2 a command line that is not understood or needs
// a confirmation.
const (
	exitFailure = 1
	exitUsage   = 2
)

func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(stderr, "machinectl:", err)
		return exitCode(err)
	}
	return 0
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "machinectl",
		Short:         "Drive machined nodes, and build and run their images",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newPKI(), newImage(), newQEMU())
	return root
}

func exitCode(error) int { return exitFailure }
