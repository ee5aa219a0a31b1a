package config

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// redacted takes the place of a secret.
const redacted = "***"

// Redact returns the config in data with its secrets (the psk of a wifi network,
// the password of a registry, environment variables that are called a password, a
// secret, a token or a key) replaced by "***" and everything else as it was,
// comments included.
// A secret that spans lines costs the layout, never the secrecy.
//
// Data that is not one YAML document is refused with Errors: what cannot be
// read cannot be redacted.
func Redact(data []byte) ([]byte, error) {
	root, err := document("config", data)
	if err != nil {
		return nil, fmt.Errorf("redact the config, which must be valid YAML: %w", err)
	}
	nodes := secrets(root)
	if len(nodes) == 0 {
		return data, nil
	}
	if out, ok := redactInPlace(data, nodes); ok {
		return out, nil
	}
	for _, n := range nodes {
		*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: redacted, Style: yaml.DoubleQuotedStyle, Anchor: n.Anchor}
	}
	return dump(root)
}

// secrets returns each node that is the value of a secret field, once and in
// the order of the file.
func secrets(root *yaml.Node) []*yaml.Node {
	seen := map[*yaml.Node]bool{}
	findSecrets(root, seen)
	return slices.SortedFunc(maps.Keys(seen), func(a, b *yaml.Node) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// findSecrets looks at any depth: a psk under a misspelt parent is a secret too.
func findSecrets(n *yaml.Node, seen map[*yaml.Node]bool) {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 && isSecret(target(n.Content[i-1]).Value) {
			if s := target(child); !isNull(s) {
				seen[s] = true
			}
			continue
		}
		findSecrets(child, seen)
	}
}

// isSecret goes by the name, which for a variable of a program's environment is
// all that there is to go by.
func isSecret(field string) bool {
	name := strings.ToUpper(field)
	return field == "psk" || strings.HasSuffix(name, "_KEY") ||
		slices.ContainsFunc([]string{"PASSWORD", "PASSWD", "SECRET", "TOKEN"}, func(word string) bool { return strings.Contains(name, word) })
}

// redactInPlace cuts the secrets out of the text, and reads the result back
// before it vouches for it.
func redactInPlace(data []byte, nodes []*yaml.Node) ([]byte, bool) {
	out := bytes.Clone(data)
	// From the end, so that the places before stay where they are.
	for _, n := range slices.Backward(nodes) {
		start, end, ok := span(out, n)
		if !ok {
			return nil, false
		}
		out = slices.Replace(out, start, end, []byte(`"`+redacted+`"`)...)
	}
	root, err := document("config", out)
	if err != nil {
		return nil, false
	}
	after := secrets(root)
	for _, n := range after {
		if n.Kind != yaml.ScalarNode || n.Value != redacted {
			return nil, false
		}
	}
	return out, len(after) == len(nodes)
}

// offset turns a place into a byte offset, -1 if there is no such place.
func offset(data []byte, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		i := bytes.IndexByte(data[at:], '\n')
		if i < 0 {
			return -1
		}
		at += i + 1
	}
	for i := range string(data[at:]) {
		if column == 1 {
			return at + i
		}
		column--
	}
	return -1
}

// span finds the bytes of a scalar without its anchor and tag. It knows the
// scalars that a passphrase is written as, and gives up on others.
func span(data []byte, n *yaml.Node) (start, end int, ok bool) {
	start = offset(data, n.Line, n.Column)
	if start < 0 || n.Kind != yaml.ScalarNode {
		return 0, 0, false
	}
	for start < len(data) && (data[start] == '&' || data[start] == '!') {
		word := bytes.IndexAny(data[start:], " \n")
		if word < 0 || data[start+word] == '\n' {
			return 0, 0, false
		}
		start += word
		for start < len(data) && data[start] == ' ' {
			start++
		}
	}
	text := string(data[start:])
	switch {
	case n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		length := quoted(text)
		return start, start + length, length > 0
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return 0, 0, false
	}
	return start, start + len(n.Value), n.Value != "" && strings.HasPrefix(text, n.Value)
}

// quoted returns the length of the quoted scalar that s begins with, 0 if it
// does not begin with one.
func quoted(s string) int {
	if s == "" || (s[0] != '\'' && s[0] != '"') {
		return 0
	}
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && s[0] == '"':
			i++
		case s[i] == s[0] && s[0] == '\'' && strings.HasPrefix(s[i+1:], "'"):
			i++
		case s[i] == s[0]:
			return i + 1
		}
	}
	return 0
}

// dump writes a tree back as YAML.
func dump(root *yaml.Node) (out []byte, err error) {
	// As in document: a panic of the library must not end PID 1.
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("write the config as YAML: the library gave up: %v", p)
		}
	}()
	out, err = yaml.Dump(root)
	if err != nil {
		return nil, fmt.Errorf("write the config as YAML: %w", err)
	}
	return out, nil
}
