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

func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(stderr, "machinectl:", err)
		return exitCode(err)
	}
	return 0
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "machinectl",
		Short: "Drive machined nodes, and build and run their images",
		Long: "Drive machined nodes, and build and run their images.\n\n" +
			"A node is found by --bundle and --endpoint, else by MACHINECTL_BUNDLE and\n" +
			"MACHINECTL_ENDPOINT, else by the current context; see `machinectl config`.",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	// The completion command keeps the writer that it is made with.
	root.SetOut(stdout)
	root.SetErr(stderr)
	f := &nodeFlags{}
	f.register(root)
	root.AddGroup(
		&cobra.Group{ID: "node", Title: "Commands for a node:"},
		&cobra.Group{ID: "local", Title: "Commands on this computer:"},
	)
	addTo(root, "node", newVersion(f), newGet(f), newWatch(f), newLogs(f), newService(f), newRuntime(f), newReboot(f), newShutdown(f),
		newUpgrade(f), newCommit(f), newRollback(f), newApply(f), newReset(f), newInstall(f))
	addTo(root, "local", newConfig(f), newPKI(), newImage(), newBundle(), newNetboot(), newQEMU())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.SetCompletionCommandGroupID("local")
	root.SetHelpCommandGroupID("local")
	tellUsage(root)
	return root
}

func addTo(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
		root.AddCommand(c)
	}
}
