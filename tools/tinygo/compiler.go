package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

const tinyGo = "github.com/tinygo-org/tinygo"

// compiler is TinyGo in the directory build/tinygo.
type compiler struct {
	root string // of machined's module
	dir  string // build/tinygo
	home string // TINYGOROOT: a copy of TinyGo's sources, with the program in bin
	// release is the Go release that TinyGo is built and run with.
	release string
	log     io.Writer
}

// newCompiler finds out which compiler is asked for, and where it is to be.
func newCompiler(root string, log io.Writer) (*compiler, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	c := &compiler{root: root, dir: filepath.Join(root, "build", "tinygo"), log: log}
	mod, err := os.ReadFile(filepath.Join(c.module(), "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("find out which TinyGo to build: %w", err)
	}
	sum, err := os.ReadFile(filepath.Join(c.module(), "go.sum"))
	if err != nil {
		return nil, fmt.Errorf("find out which TinyGo to build: %w", err)
	}
	parsed, err := modfile.Parse(filepath.Join(c.module(), "go.mod"), mod, nil)
	if err != nil {
		return nil, fmt.Errorf("find out which TinyGo to build: %w", err)
	}
	if parsed.Toolchain == nil {
		return nil, fmt.Errorf("%s/go.mod names no toolchain; TinyGo does not take the newest Go, so name the one that it takes", c.module())
	}
	c.release = parsed.Toolchain.Name
	// Whatever changes the compiler gives it another place, so that one that is
	// there is the right one.
	key := sha256.Sum256(append(mod, sum...))
	c.home = filepath.Join(c.dir, "compiler-"+hex.EncodeToString(key[:6]))
	return c, nil
}

// module is the directory of the module that requires TinyGo.
func (c *compiler) module() string { return filepath.Join(c.root, "tools", "tinygo", "compiler") }

func (c *compiler) program() string { return filepath.Join(c.home, "bin", "tinygo") }

// ready says why the compiler cannot be used, if so.
func (c *compiler) ready(ctx context.Context) error {
	if _, err := os.Stat(c.program()); err != nil {
		return fmt.Errorf("TinyGo is not built: %w", err)
	}
	if out, err := exec.CommandContext(ctx, filepath.Join(c.root, "tools", "tinygo", "setup.sh"), "--check").CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w", bytes.TrimSpace(out), err)
	}
	return nil
}

// build makes the compiler where it is not there yet.
func (c *compiler) build(ctx context.Context) error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	if _, err := os.Stat(c.program()); err == nil {
		return nil
	}
	fmt.Fprintln(c.log, "tinygo: building the compiler, which takes a minute")
	if _, err := c.goCommand(ctx, "mod", "download", tinyGo); err != nil {
		return err
	}
	sources, err := c.goCommand(ctx, "list", "-m", "-f", "{{.Dir}}", tinyGo)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(c.dir, "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	// A copy, since TinyGo wants a directory that its module does not have, and
	// the module cache cannot be written to.
	home := filepath.Join(work, "home")
	if err := os.CopyFS(home, os.DirFS(sources)); err != nil {
		return fmt.Errorf("copy TinyGo's sources: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(home, "src", "net"), 0o755); err != nil {
		return err
	}
	if _, err := c.goCommand(ctx, "build", "-trimpath", "-tags", "llvm19", "-o", filepath.Join(home, "bin", "tinygo"), tinyGo); err != nil {
		return err
	}
	// In place at once or not at all.
	return os.Rename(home, c.home)
}

// goCommand runs the go command of the release that TinyGo takes, in the
// module that requires it.
func (c *compiler) goCommand(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = c.module()
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN="+c.release, "GOFLAGS=-mod=readonly", "GOWORK=off", "CGO_ENABLED=1")
	return output(cmd)
}

// command returns a command of TinyGo on machined's module.
func (c *compiler) command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	goroot, err := c.goCommand(ctx, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	gocache, err := c.goCommand(ctx, "env", "GOCACHE")
	if err != nil {
		return nil, err
	}
	// machined asks for a newer Go than TinyGo takes, which the core does not
	// need. Lying here, the file also keeps this directory out of machined's
	// own packages.
	mod := filepath.Join(c.dir, "go.mod")
	if err := os.WriteFile(mod, []byte("module machined\n\ngo 1.25\n"), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, c.program(), args...)
	cmd.Dir = c.root
	cmd.Env = append(os.Environ(),
		"GOROOT="+goroot, "PATH="+filepath.Join(goroot, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"),
		"GOTOOLCHAIN=local", "GOFLAGS=-modfile="+mod, "GOWORK=off", "GOOS=", "GOARCH=", "TINYGOROOT="+c.home,
		// TinyGo's cache goes here too, the go command's stays where it is.
		"XDG_CACHE_HOME="+filepath.Join(c.dir, "cache"), "GOCACHE="+gocache)
	return cmd, nil
}

// output runs cmd and returns what it printed, without the last newline. An
// error has what it said.
func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(cmd.Path), strings.Join(cmd.Args[1:], " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}
