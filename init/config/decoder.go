package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// decoder walks YAML nodes and collects what is wrong with them. Its methods
// return a usable value after an error, so that the walk goes on.
type decoder struct {
	file     string
	errors   Errors
	warnings Warnings
	// visited counts nodes, those behind an alias each time they are met: a
	// few hundred bytes of aliases to aliases can stand for millions.
	visited int
	// suggested counts suggestions, which cost more than all else together.
	suggested int
}

// value is a node and the field it was found in. A nil node is a field that the
// file does not have.
type value struct {
	node *yaml.Node
	path string
}

func (v value) absent() bool { return v.node == nil }

// object is a mapping whose field names were checked. It is not ok when the
// field is absent, or something else than a mapping.
type object struct {
	value
	ok     bool
	fields map[string]value
}

// get returns a field, absent if the file does not have it or has it empty.
func (o object) get(field string) value {
	if v, ok := o.fields[field]; ok {
		return v
	}
	return value{path: join(o.path, field)}
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

func (d *decoder) errorf(v value, format string, args ...any) {
	d.errors = append(d.errors, d.at(v, fmt.Sprintf(format, args...)))
}

func (d *decoder) at(v value, message string) Error {
	return Error{File: d.file, Line: v.node.Line, Column: v.node.Column, Path: v.path, Message: message}
}

// enter follows an alias and spends the budget. It returns false when the walk
// must not go into v.
func (d *decoder) enter(v *value) bool {
	if v.absent() {
		return false
	}
	v.node = target(v.node)
	if d.visited > maxVisits {
		return false
	}
	d.visited += 1 + len(v.node.Content)
	if d.visited > maxVisits {
		d.errorf(*v, "more than %d YAML nodes with aliases expanded; use fewer aliases", maxVisits)
		return false
	}
	if isNull(v.node) {
		return false
	}
	if !standardTag(v.node) {
		d.errorf(*v, "unsupported YAML tag %s; remove it", quote(v.node.Tag))
		return false
	}
	return true
}

func standardTag(n *yaml.Node) bool {
	switch n.Tag {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!!merge":
		return n.Kind == yaml.ScalarNode
	case "!!seq":
		return n.Kind == yaml.SequenceNode
	case "!!map":
		return n.Kind == yaml.MappingNode
	}
	return false
}

// object reads a mapping with the given fields. Unknown and repeated ones are
// errors, those in the table of notActedOn are warnings.
func (d *decoder) object(v value, known ...string) object {
	o := object{value: v, fields: map[string]value{}}
	if !d.enter(&v) {
		return o
	}
	o.value = v // The node behind an alias.
	if v.node.Kind != yaml.MappingNode {
		d.errorf(v, "want a mapping; got %s", describe(v.node))
		return o
	}
	o.ok = true
	for key, item := range d.pairs(v) {
		if !slices.Contains(known, key.node.Value) {
			d.errorf(key, "unknown field%s", d.suggest(key.node.Value, known))
			continue
		}
		if isNull(target(item.node)) {
			continue
		}
		o.fields[key.node.Value] = item
		if notActedOn(pattern(key.path)) {
			d.warnings = append(d.warnings, d.at(key, "this version does not act on this field; it has no effect"))
		}
	}
	return o
}

// pairs yields the keys and values of a mapping, and reports keys that are no
// words or come twice.
func (d *decoder) pairs(v value) func(yield func(key, item value) bool) {
	return func(yield func(key, item value) bool) {
		first := map[string]int{}
		for i := 0; i+1 < len(v.node.Content); i += 2 {
			key := value{node: target(v.node.Content[i]), path: v.path}
			if key.node.Kind != yaml.ScalarNode {
				key.node = v.node.Content[i]
				d.errorf(key, "want a word as field name; got %s", describe(target(key.node)))
				continue
			}
			if key.node.Tag == "!!merge" {
				d.errorf(key, "merge keys (<<) are not supported; write the fields out")
				continue
			}
			key.path = join(v.path, pathWord(key.node.Value))
			if line, ok := first[key.node.Value]; ok {
				d.errorf(key, "duplicate field; the first is on line %d", line)
				continue
			}
			first[key.node.Value] = key.node.Line
			if !yield(key, value{node: v.node.Content[i+1], path: key.path}) {
				return
			}
		}
	}
}

// pathWord keeps a path on one line and readable whatever the key holds.
func pathWord(key string) string {
	if len(key) > 64 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '.' || r > 0x7f }) {
		return quote(key)
	}
	return key
}

// need returns a field that must be there.
func (d *decoder) need(o object, field string) value {
	v := o.get(field)
	if v.absent() && o.ok {
		d.errorf(value{node: o.node, path: v.path}, "missing; this field is required")
	}
	return v
}

// list reads a sequence. Empty items are errors and left out.
func (d *decoder) list(v value) []value {
	if !d.enter(&v) {
		return nil
	}
	if v.node.Kind != yaml.SequenceNode {
		d.errorf(v, "want a list; got %s", describe(v.node))
		return nil
	}
	items := make([]value, 0, len(v.node.Content))
	for i, n := range v.node.Content {
		item := value{node: n, path: v.path + "[" + strconv.Itoa(i) + "]"}
		if isNull(target(n)) {
			d.errorf(item, "empty list item; remove it or give it a value")
			continue
		}
		items = append(items, item)
	}
	return items
}

// text reads a scalar as it is written: `value: 1` is the string "1", since
// quotes around a number are easy to forget and nothing else can be meant.
func (d *decoder) text(v value) (string, bool) {
	if !d.enter(&v) {
		return "", false
	}
	if v.node.Kind != yaml.ScalarNode {
		d.errorf(v, "want a string; got %s", describe(v.node))
		return "", false
	}
	return v.node.Value, true
}

func (d *decoder) boolean(v value, absent bool) bool {
	if !d.enter(&v) {
		return absent
	}
	word := strings.ToLower(v.node.Value)
	if v.node.Tag != "!!bool" || (word != "true" && word != "false") {
		d.errorf(v, "want true or false; got %s", describe(v.node))
		return absent
	}
	return word == "true"
}

func (d *decoder) integer(v value, absent, lowest, highest int64) int64 {
	if !d.enter(&v) {
		return absent
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(v.node.Value, "_", ""), 0, 64)
	switch {
	case v.node.Tag != "!!int":
		d.errorf(v, "want a whole number; got %s", describe(v.node))
	case err != nil || n < lowest || n > highest:
		d.errorf(v, "want a whole number from %d to %d; got %s", lowest, highest, quote(v.node.Value))
	default:
		return n
	}
	return absent
}

// scalar reads text through parse, whose error becomes the message.
func scalar[T any](d *decoder, v value, absent T, parse func(string) (T, error)) T {
	s, ok := d.text(v)
	if !ok {
		return absent
	}
	parsed, err := parse(s)
	if err != nil {
		d.errorf(value{node: target(v.node), path: v.path}, "%v", err)
		return absent
	}
	return parsed
}

// scalars reads a list of texts through parse.
func scalars[T any](d *decoder, v value, parse func(string) (T, error)) []T {
	return parseItems(d, d.list(v), parse)
}

// parseItems reads the items of a list; those that parse refuses are left out.
func parseItems[T any](d *decoder, items []value, parse func(string) (T, error)) []T {
	var out []T
	for _, item := range items {
		before := len(d.errors)
		var zero T
		if parsed := scalar(d, item, zero, parse); len(d.errors) == before {
			out = append(out, parsed)
		}
	}
	return out
}

// describe names a node's type, with its value where that is short.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!str":
		return "the string " + quote(n.Value)
	default:
		return quote(n.Value)
	}
}

// pattern takes the indexes out of a path.
func pattern(path string) string {
	var b strings.Builder
	for i, skip := 0, false; i < len(path); i++ {
		skip = skip && path[i] != ']'
		if !skip {
			b.WriteByte(path[i])
		}
		skip = skip || path[i] == '['
	}
	return b.String()
}
