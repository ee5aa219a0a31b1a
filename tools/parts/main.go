// Command parts fills the store that images are built from: it takes kernels
// and firmware from their Go modules, loaders from their Debian packages, and
// builds machined's own programs and file systems.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"machined/images/parts"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("parts", flag.ContinueOnError)
	out := flags.String("out", "build/parts", "the store's directory")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if err := collect(*out, stderr); err != nil {
		fmt.Fprintln(stderr, "parts:", err)
		return 1
	}
	return 0
}

// collect fills the store at out. A store that exists stays whole until the
// new one is complete.
func collect(out string, log io.Writer) error {
	c, err := newCollector(out, log)
	if err != nil {
		return err
	}
	defer os.RemoveAll(c.work)
	// Ctrl-C reaches the tools that a step runs too; what they leave is removed.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, step := range []struct {
		what string
		run  func() error
	}{
		{"kernels and device trees", c.kernels},
		{"Raspberry Pi firmware", c.firmware},
		{"systemd-boot", c.loaders},
		{"the templates of an empty ext4", c.templates},
		{"machined", c.programs},
		{"the container runtime", c.runtimes},
		{"nft and its libraries", c.firewalls},
		{"initramfs and system images", c.systems},
	} {
		fmt.Fprintf(log, "parts: collecting %s\n", step.what)
		if err := errors.Join(step.run(), ctx.Err()); err != nil {
			return fmt.Errorf("collect %s: %w", step.what, err)
		}
	}
	if err := c.writeIndex(); err != nil {
		return err
	}
	if err := replaceDir(c.store, out); err != nil {
		return fmt.Errorf("put the store in place: %w", err)
	}
	fmt.Fprintf(log, "parts: %d files in %s, version %s\n", len(c.index.Parts), out, c.index.Version)
	return nil
}

// replaceDir moves dir to out, which may exist.
func replaceDir(dir, out string) error {
	old := out + ".old"
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	if err := os.Rename(out, old); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Rename(dir, out); err != nil {
		return err
	}
	return os.RemoveAll(old)
}

// add copies a file into the store as a part, which holds other parts packed
// inside.
func (c *collector) add(component, name, from string, holds ...string) error {
	copyTo := func(w io.Writer) error {
		f, err := os.Open(from)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	}
	return c.make(component, name, copyTo, holds...)
}

// make adds a part that write produces.
func (c *collector) make(component, name string, write func(io.Writer) error, holds ...string) error {
	path := filepath.Join(c.store, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := writeFile(path, write); err != nil {
		return fmt.Errorf("make part %s: %w", name, err)
	}
	return c.register(component, name, holds...)
}

// register adds a file that is in the store already.
func (c *collector) register(component, name string, holds ...string) error {
	sum, size, err := parts.Hash(filepath.Join(c.store, filepath.FromSlash(name)))
	if err != nil {
		return fmt.Errorf("register part %s: %w", name, err)
	}
	c.index.Parts = append(c.index.Parts, parts.Part{Name: name, Component: component, Size: size, SHA256: sum, Holds: holds})
	return nil
}
