package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"machined/api/machinepb"
)

// format is the value of -o.
type format string

const (
	formatText  format = "text"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
	formatTable format = "table"
)

func (f *format) register(cmd *cobra.Command) {
	cmd.Flags().VarP(f, "output", "o", "how to print: text, json, yaml, table")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json", "yaml", "table"}, cobra.ShellCompDirectiveNoFileComp))
}

// String implements pflag.Value.
func (f *format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *format) Type() string { return "format" }

// Set implements pflag.Value.
func (f *format) Set(s string) error {
	switch format(s) {
	case formatText, formatJSON, formatYAML, formatTable:
		*f = format(s)
		return nil
	}
	return fmt.Errorf("use text, json, yaml or table")
}

// writeLines writes a line for each entry: the id, and key=value.
func writeLines(w io.Writer, entries []*machinepb.ResourceEntry) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, e := range entries {
		var fields []string
		for _, f := range e.GetFields() {
			fields = append(fields, word(f.GetKey())+"="+word(f.GetValue()))
		}
		fmt.Fprintf(tw, "%s\t%s\n", word(e.GetId()), strings.Join(fields, " "))
	}
	return tw.Flush()
}

// writeTable writes rows in columns. A line has no spaces at its end.
func writeTable(w io.Writer, rows [][]string) error {
	var b bytes.Buffer
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// word makes a value one word of a line: a space, a quote or what a terminal
// would act on puts it in quotes, with the escapes of Go and JSON, and so does
// having nothing to show.
func word(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r == ' ' || r == '"' || !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// cell is a value in a table, where spaces do no harm.
func cell(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// object is a JSON object or YAML mapping that keeps its order. A value is a
// string, an object or a []object.
type object []pair

type pair struct {
	key   string
	value any
}

func writeTree(w io.Writer, out format, tree any) error {
	if out == formatYAML {
		data, err := yaml.Dump(yamlNode(tree), yaml.WithLineWidth(-1))
		if err != nil {
			return fmt.Errorf("encode as YAML: %w", err)
		}
		_, err = w.Write(data)
		return err
	}
	data, err := plainJSON(tree)
	if err != nil {
		return fmt.Errorf("encode as JSON: %w", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return fmt.Errorf("encode as JSON: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, p := range o {
		key, err := plainJSON(p.key)
		if err != nil {
			return nil, err
		}
		value, err := plainJSON(p.value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, key...), ':'), value...)
	}
	return append(b, '}'), nil
}

// plainJSON leaves <, > and & as they are.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

func yamlNode(v any) *yaml.Node {
	switch v := v.(type) {
	case object:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, p := range v {
			n.Content = append(n.Content, yamlNode(p.key), yamlNode(p.value))
		}
		return n
	case []object:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, o := range v {
			n.Content = append(n.Content, yamlNode(o))
		}
		return n
	}
	s := fmt.Sprint(v)
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	switch {
	case strings.Contains(s, "\n"):
		n.Style = yaml.LiteralStyle
	case onceNoString(s):
		n.Style = yaml.SingleQuotedStyle
	}
	return n
}

// onceNoString reports whether YAML 1.1, which many programs read, takes a plain
// scalar for something other than a string, where YAML 1.2 does not: booleans,
// and numbers to base 60 such as 52:54:00:12:34:56.
func onceNoString(s string) bool {
	switch strings.ToLower(s) {
	case "y", "yes", "n", "no", "on", "off":
		return true
	}
	return strings.Contains(s, ":") && strings.Trim(s, "0123456789:.+-_") == ""
}
