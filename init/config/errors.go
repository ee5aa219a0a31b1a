package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Error is one fault of a config file.
type Error struct {
	File string
	// Line and Column count from 1, columns in characters. Both are 0 when
	// the place is not known.
	Line, Column int
	// Path is the field, such as machine.network.interfaces[0].mtu, "" when
	// the fault is not one field's.
	Path    string
	Message string
}

// Error returns `FILE:LINE:COL: PATH: message` on one line.
func (e Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": ")
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// Errors are all faults of a config file, in the order of their places.
type Errors []Error

// Error returns a line for each fault, without a newline at the end.
func (e Errors) Error() string {
	return strings.Join(lines(e), "\n")
}

// Warnings are valid fields that have no effect in this version, in the order
// of their places.
type Warnings []Error

// Lines returns a line for each warning.
func (w Warnings) Lines() []string {
	return lines(w)
}

func lines(list []Error) []string {
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = e.Error()
	}
	return out
}

func sortByPlace(list []Error) {
	slices.SortStableFunc(list, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// quote shows a value of the file in a message. Long ones are cut: a message
// must stay a line on a serial console.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}
