package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// parseContexts reads the config file strictly. Its errors begin with a line
// number.
func parseContexts(data []byte) (*contextsFile, error) {
	root, err := document(data)
	if err != nil || isNull(root) {
		return &contextsFile{}, err
	}
	file, currentLine := &contextsFile{}, 0
	err = eachKey(root, []string{"current", "contexts"}, func(key string, value *yaml.Node) (err error) {
		if key == "contexts" {
			file.Contexts, err = parseList(value)
			return err
		}
		currentLine = value.Line
		file.Current, err = text(key, value)
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, err := file.find(file.Current); file.Current != "" && err != nil {
		return nil, fmt.Errorf("%d: the current context %q is not among the contexts", currentLine, file.Current)
	}
	return file, nil
}

func parseList(list *yaml.Node) ([]nodeContext, error) {
	if isNull(list) {
		return nil, nil
	}
	if list.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("%d: contexts is not a list", list.Line)
	}
	var contexts []nodeContext
	seen := map[string]int{}
	for _, n := range list.Content {
		c, err := parseContext(n)
		if err != nil {
			return nil, err
		}
		switch first := seen[c.Name]; {
		case c.Name == "" || c.Endpoint == "" || c.Bundle == "":
			return nil, fmt.Errorf("%d: a context needs a name, an endpoint and a bundle", n.Line)
		case !filepath.IsAbs(c.Bundle):
			return nil, fmt.Errorf("%d: the bundle %q of context %s is not an absolute path", n.Line, c.Bundle, c.Name)
		case first != 0:
			return nil, fmt.Errorf("%d: context %s is on line %d already", n.Line, c.Name, first)
		}
		seen[c.Name] = n.Line
		contexts = append(contexts, c)
	}
	return contexts, nil
}

func parseContext(n *yaml.Node) (nodeContext, error) {
	var c nodeContext
	err := eachKey(n, []string{"name", "endpoint", "bundle", "server_name"}, func(key string, value *yaml.Node) (err error) {
		switch key {
		case "name":
			c.Name, err = text(key, value)
		case "endpoint":
			c.Endpoint, err = text(key, value)
		case "bundle":
			c.Bundle, err = text(key, value)
		case "server_name":
			c.ServerName, err = text(key, value)
		}
		return err
	})
	return c, err
}

// document returns the root of the one document; null if there is none.
func document(data []byte) (*yaml.Node, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, atLine(err)
	}
	var first, second yaml.Node
	switch err := loader.Load(&first); {
	case err == io.EOF:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}, nil
	case err != nil:
		return nil, atLine(err)
	}
	if err := loader.Load(&second); err == nil {
		return nil, fmt.Errorf("%d: a second document begins here", second.Line)
	} else if err != io.EOF {
		return nil, atLine(err)
	}
	return first.Content[0], nil
}

// atLine turns the YAML library's error into "LINE: MESSAGE".
func atLine(err error) error {
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		return fmt.Errorf("1: %w", err)
	}
	return fmt.Errorf("%d: %s", max(load.Mark.Line, 1), load.Message)
}

// eachKey calls do for each key of a mapping, all of which must be known.
func eachKey(n *yaml.Node, known []string, do func(key string, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("%d: a mapping of %s belongs here", n.Line, strings.Join(known, ", "))
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if !slices.Contains(known, key.Value) {
			return fmt.Errorf("%d: unknown key %q; known are %s", key.Line, key.Value, strings.Join(known, ", "))
		}
		if first := seen[key.Value]; first != 0 {
			return fmt.Errorf("%d: %q is on line %d already", key.Line, key.Value, first)
		}
		seen[key.Value] = key.Line
		if err := do(key.Value, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// text returns a scalar as it is written: a name may look like a number.
func text(key string, n *yaml.Node) (string, error) {
	if isNull(n) {
		return "", nil
	}
	if n.Kind != yaml.ScalarNode {
		return "", fmt.Errorf("%d: %s is not a text", n.Line, key)
	}
	return n.Value, nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }
