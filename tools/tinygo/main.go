// Command tinygo is `make tinygo`: it builds the TinyGo compiler, compiles every
// package of the core with it, links the core's conformance suite as
// WebAssembly, and runs that.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"machined/reconcile/conformance"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("tinygo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("root", ".", "directory of machined's go.mod")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	// Ctrl-C reaches the compiler too.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := check(ctx, *root, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "tinygo:", err)
		return 1
	}
	return 0
}

// check does it all, in the order in which each step needs the one before.
func check(ctx context.Context, root string, stdout, stderr io.Writer) error {
	c, err := newCompiler(root, stderr)
	if err != nil {
		return err
	}
	if err := c.build(ctx); err != nil {
		return fmt.Errorf("build TinyGo: %w", err)
	}
	packages, err := corePackages(ctx, c.root)
	if err != nil {
		return err
	}
	for _, t := range c.targets() {
		if err := c.compile(ctx, t, packages); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "compiled for %s:\n", t.name)
		for _, p := range packages {
			fmt.Fprintln(stdout, "   ok  ", p)
		}
	}
	path := filepath.Join(c.dir, "core.wasm")
	results, err := c.suite(ctx, path)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "the conformance suite as WebAssembly, %s:\n", path)
	return judge(stdout, results, conformance.Cases())
}
