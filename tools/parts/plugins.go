package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	// pluginDir is where the slot's root has the network plugins.
	pluginDir = "usr/lib/cni"
	// pluginSources is where they are laid out below the scratch directory.
	pluginSources = "cni"
)

// networkPlugins lists the plugins by their directory in their Go module.
func networkPlugins() []string {
	return []string{"plugins/main/bridge", "plugins/main/loopback", "plugins/meta/portmap", "plugins/ipam/host-local"}
}

// pluginOverlay lays the plugins, which are commands, out as packages below
// runtime/cni, where the program that holds them all imports them. It returns
// the file for go build -overlay. Their sources stay as they are but for the
// package's name and that of its main function.
func (c *collector) pluginOverlay(dir string) (string, error) {
	if _, err := outputIn(dir, "go", "mod", "download", "github.com/containernetworking/plugins"); err != nil {
		return "", err
	}
	from, err := outputIn(dir, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/containernetworking/plugins")
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for _, p := range networkPlugins() {
		name := path.Base(p)
		files, err := filepath.Glob(filepath.Join(from, filepath.FromSlash(p), "*.go"))
		if err != nil || len(files) == 0 {
			return "", fmt.Errorf("plugin %s: no sources in %s: %w", name, from, os.ErrNotExist)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			to := filepath.Join(c.work, pluginSources, name, filepath.Base(f))
			if err := asPackage(f, to, strings.ReplaceAll(name, "-", "")); err != nil {
				return "", err
			}
			replace[filepath.Join(dir, "cni", name, filepath.Base(f))] = to
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(c.work, "cni.overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o644)
}

// asPackage copies a file of a command as one of the named package.
func asPackage(from, to, name string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	text = regexp.MustCompile(`(?m)^package main$`).ReplaceAll(text, []byte("package "+name))
	text = regexp.MustCompile(`(?m)^func main\(\)`).ReplaceAll(text, []byte("func Main()"))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

// linkPlugins makes the names by which the program is started for a plugin.
func linkPlugins(root string) error {
	for _, p := range networkPlugins() {
		if err := os.Symlink("cni", filepath.Join(root, filepath.FromSlash(pluginDir), path.Base(p))); err != nil {
			return err
		}
	}
	return nil
}
