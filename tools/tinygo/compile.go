package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"machined/tools/tinygo/corecheck"
)

// corePackages lists the core, so that a new package is compiled without being
// named anywhere.
func corePackages(ctx context.Context, root string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-f", "{{if .GoFiles}}{{.ImportPath}}{{end}}"}, corecheck.Patterns()...)...)
	cmd.Dir = root
	list, err := output(cmd)
	if err != nil {
		return nil, fmt.Errorf("list the packages of the core: %w", err)
	}
	return strings.Fields(list), nil
}

// target is what TinyGo compiles for.
type target struct {
	name string // for messages
	spec string // the argument of -target
}

// wasm is a target of our own: TinyGo's needs sources that its module does not
// have, where Debian's libraries do as well.
func (c *compiler) wasm() target {
	return target{"WebAssembly", filepath.Join(c.root, "tools", "tinygo", "wasm", "target.json")}
}

// targets are WebAssembly and a microcontroller. Both have 32 bits and no
// operating system, which finds what rests on either.
func (c *compiler) targets() []target {
	return []target{c.wasm(), {"a Cortex-M3", "cortex-m-qemu"}}
}

// compile compiles the packages for t, without linking.
func (c *compiler) compile(ctx context.Context, t target, packages []string) error {
	dir, err := os.MkdirTemp(c.dir, "all-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// TinyGo compiles programs, so here is one of all the packages.
	var program bytes.Buffer
	fmt.Fprintf(&program, "//go:build tinygo\n\npackage main\n\nimport (\n")
	for _, p := range packages {
		fmt.Fprintf(&program, "\t_ %q\n", p)
	}
	fmt.Fprintf(&program, ")\n\nfunc main() {}\n")
	path := filepath.Join(dir, "main.go")
	if err := os.WriteFile(path, program.Bytes(), 0o644); err != nil {
		return err
	}
	cmd, err := c.command(ctx, "build", "-target="+t.spec, "-o", filepath.Join(dir, "all.ll"), path)
	if err != nil {
		return err
	}
	if _, err := output(cmd); err != nil {
		return fmt.Errorf("compile the core for %s: %w", t.name, err)
	}
	return nil
}

// suite links the conformance suite as a WebAssembly module at path, and runs
// it.
func (c *compiler) suite(ctx context.Context, path string) ([]result, error) {
	cmd, err := c.command(ctx, "build", "-target="+c.wasm().spec, "-o", path, "./tools/tinygo/wasm")
	if err != nil {
		return nil, err
	}
	if _, err := output(cmd); err != nil {
		return nil, fmt.Errorf("link the conformance suite: %w", err)
	}
	module, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return runSuite(ctx, module)
}
