package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"
)

const configVariable = "MACHINECTL_CONFIG"

// contextsFile is the config file: the nodes that machinectl knows by name.
type contextsFile struct {
	Current  string        `yaml:"current,omitempty"`
	Contexts []nodeContext `yaml:"contexts"`
}

// nodeContext is one node.
type nodeContext struct {
	Name       string `yaml:"name"`
	Endpoint   string `yaml:"endpoint"`
	Bundle     string `yaml:"bundle"` // absolute
	ServerName string `yaml:"server_name,omitempty"`
}

// contextsPath returns where the config file is, or would be.
func contextsPath() (string, error) {
	path := os.Getenv(configVariable)
	if path == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return "", fmt.Errorf("find the config directory: %w; name a file in %s", err, configVariable)
		}
		path = filepath.Join(dir, "machinectl", "config.yaml")
	}
	return filepath.Abs(path)
}

// loadContexts reads the config file. One that is not there has no contexts.
func loadContexts() (*contextsFile, error) {
	path, err := contextsPath()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &contextsFile{}, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the contexts: %w", err)
	}
	file, err := parseContexts(data)
	if err != nil {
		return nil, fmt.Errorf("%s:%w; correct the file, or remove it and run `machinectl config merge`", path, err)
	}
	return file, nil
}

func (f *contextsFile) find(name string) (*nodeContext, error) {
	var names []string
	for i := range f.Contexts {
		if f.Contexts[i].Name == name {
			return &f.Contexts[i], nil
		}
		names = append(names, f.Contexts[i].Name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("there is no context %q, nor any other; `machinectl config merge` makes one", name)
	}
	return nil, fmt.Errorf("there is no context %q; there are %s", name, strings.Join(names, ", "))
}

// save replaces the config file as a whole.
func (f *contextsFile) save() error {
	path, err := contextsPath()
	if err != nil {
		return err
	}
	data, err := yaml.Dump(f)
	if err != nil {
		return fmt.Errorf("encode the contexts: %w", err)
	}
	if err := writePrivate(path, data); err != nil {
		return fmt.Errorf("save the contexts to %s: %w", path, err)
	}
	return nil
}

// completeContexts completes the name of a context.
func completeContexts(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	file, err := loadContexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, c := range file.Contexts {
		names = append(names, c.Name+"\t"+c.Endpoint)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
