package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"machined/images/parts"
)

// collector gathers parts into a store that is under construction.
type collector struct {
	log   io.Writer
	store string // the new store
	work  string // holds store and scratch files, removed at the end
	cache string // what is slow to get, kept between runs under its version
	index parts.Index
}

func newCollector(out string, log io.Writer) (*collector, error) {
	abs, err := filepath.Abs(out)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(abs), 0o755); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(filepath.Dir(abs), ".parts-")
	if err != nil {
		return nil, err
	}
	c := &collector{log: log, work: work, store: filepath.Join(work, "store"), cache: filepath.Join(filepath.Dir(abs), "cache")}
	if err := c.prepare(); err != nil {
		os.RemoveAll(work)
		return nil, err
	}
	return c, nil
}

func (c *collector) prepare() error {
	for _, dir := range []string{c.store, c.cache} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return c.identify()
}

// identify takes the version and the time of the sources from git. A tree
// without it takes the time from SOURCE_DATE_EPOCH.
func (c *collector) identify() error {
	c.index.Version = "devel"
	if v, err := output("git", "describe", "--tags", "--always", "--dirty"); err == nil {
		c.index.Version = v
	}
	stamp := os.Getenv("SOURCE_DATE_EPOCH")
	if stamp == "" {
		var err error
		if stamp, err = output("git", "log", "-1", "--format=%ct"); err != nil {
			return fmt.Errorf("find the time of the sources; set SOURCE_DATE_EPOCH outside of a git checkout: %w", err)
		}
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return fmt.Errorf("read the time of the sources: %w", err)
	}
	c.index.BuildTime = seconds
	return nil
}

func (c *collector) writeIndex() error {
	c.index.Sort()
	b, err := json.MarshalIndent(&c.index, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.store, parts.IndexName), append(b, '\n'), 0o644)
}

// run runs a command and returns its output as part of the error, since a
// failing tool says there what is wrong.
func (c *collector) run(env []string, name string, args ...string) error {
	return c.runIn("", env, name, args...)
}

func (c *collector) runIn(dir string, env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run %s %s: %w\n%s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

func output(name string, args ...string) (string, error) { return outputIn("", name, args...) }

func outputIn(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// module returns the directory and version of a Go module that go.mod pins.
func (c *collector) module(path string) (dir, version string, err error) {
	if _, err := output("go", "mod", "download", path); err != nil {
		return "", "", err
	}
	out, err := output("go", "list", "-m", "-f", "{{.Dir}}\t{{.Version}}", path)
	if err != nil {
		return "", "", err
	}
	dir, version, _ = strings.Cut(out, "\t")
	if dir == "" {
		return "", "", fmt.Errorf("go module %s is not in the module cache", path)
	}
	return dir, version, nil
}
