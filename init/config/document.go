package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

const (
	// maxBytes bounds the input. A real config has a few kilobytes.
	maxBytes = 1 << 20
	// maxNodes bounds the tree. From 1 MiB of commas the library makes one of
	// 400 MB, which a 512 MB board does not have.
	maxNodes = 20_000
	// maxVisits bounds the walk, which meets nodes behind aliases again.
	maxVisits = 100_000
	// maxDepth is a few levels more than the schema has.
	maxDepth = 32
)

// document turns the bytes of a file into the root node of its one document.
// The error is always Errors with one element.
func document(file string, data []byte) (root *yaml.Node, err error) {
	if fault := inspect(data); fault != nil {
		fault.File = file
		return nil, Errors{*fault}
	}
	// The library documents no panics, but it has internal ones, and this
	// code runs in PID 1, where a panic takes the kernel with it.
	defer func() {
		if p := recover(); p != nil {
			root, err = nil, Errors{{File: file, Message: fmt.Sprintf("the YAML parser gave up: %v; simplify the file", p)}}
		}
	}()
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	if err != nil {
		return nil, Errors{{File: file, Message: fmt.Sprintf("set up the YAML parser: %v", err)}}
	}
	var first, second yaml.Node
	if err := loader.Load(&first); err != nil && err != io.EOF {
		return nil, Errors{syntaxError(file, data, err)}
	}
	if first.Kind != yaml.DocumentNode || len(first.Content) != 1 || isNull(first.Content[0]) {
		return nil, Errors{{File: file, Message: `the file is empty, probably a write that was cut short; a config without settings is "{}"`}}
	}
	switch err := loader.Load(&second); {
	case err == nil:
		return nil, Errors{{File: file, Line: second.Line, Column: second.Column,
			Message: "a second YAML document begins here; a machine config is one document, so remove the rest"}}
	case err != io.EOF:
		return nil, Errors{syntaxError(file, data, err)}
	}
	return first.Content[0], nil
}

// inspect finds what the YAML parser reports badly or too late: the traces of a
// torn write, and inputs that are too large to parse in little memory.
func inspect(data []byte) *Error {
	if len(data) > maxBytes {
		return &Error{Message: fmt.Sprintf("the file has %d bytes; a machine config has at most %d", len(data), maxBytes)}
	}
	at := Error{Line: 1, Column: 1}
	for i, items := 0, 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == 0:
			at.Message = "a NUL byte, probably from a write that was cut short; write the file again"
			return &at
		case r == utf8.RuneError && size == 1:
			at.Message = "not UTF-8; save the file as UTF-8"
			return &at
		case begins(data[i:]):
			items++
		}
		if items > maxNodes {
			at.Message = fmt.Sprintf("more than %d YAML items up to here; a machine config has a few hundred", maxNodes)
			return &at
		}
		i += size
		at.Column++
		// The line ends of YAML 1.1, which the parser counts.
		if r == '\n' || r == '\u0085' || r == '\u2028' || r == '\u2029' || (r == '\r' && (i == len(data) || data[i] != '\n')) {
			at.Line, at.Column = at.Line+1, 1
		}
	}
	return nil
}

// begins reports whether a YAML node may begin after the first byte of b.
func begins(b []byte) bool {
	switch b[0] {
	case '\n', '\r', ',', ':', '[', '{', '?':
		return true
	case '-':
		return len(b) > 1 && (b[1] == ' ' || b[1] == '\t')
	}
	return false
}

func syntaxError(file string, data []byte, err error) Error {
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		return Error{File: file, Message: fmt.Sprintf("YAML syntax: %v", err)}
	}
	e := Error{File: file, Message: "YAML syntax: " + load.Message}
	e.Line, e.Column = clamp(data, load.Mark.Line, load.Mark.Column)
	if load.ContextMsg != "" {
		e.Message += " (" + load.ContextMsg
		if load.ContextMark.Line > 0 && load.ContextMark != load.Mark {
			e.Message += fmt.Sprintf(" that begins at %d:%d", load.ContextMark.Line, load.ContextMark.Column)
		}
		e.Message += ")"
	}
	return e
}

// clamp moves a place behind the end of the file to its end: the library reads a
// newline there that the file may not have, and editors do not go to it.
func clamp(data []byte, line, column int) (int, int) {
	breaks := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")
	rows := strings.Split(breaks.Replace(string(data)), "\n")
	if line > len(rows) {
		line, column = len(rows), maxBytes
	}
	if line > 0 {
		column = min(column, utf8.RuneCountInString(rows[line-1])+1)
	}
	return line, column
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Tag == "!!null"
}

// target follows an alias to the node that it stands for.
func target(n *yaml.Node) *yaml.Node {
	for range maxDepth {
		if n.Kind != yaml.AliasNode || n.Alias == nil {
			break
		}
		n = n.Alias
	}
	return n
}
