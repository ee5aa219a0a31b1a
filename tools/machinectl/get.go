package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"machined/api/machinepb"
	"machined/reconcile/resource"
)

func newGet(f *nodeFlags) *cobra.Command {
	out, namespace := formatText, ""
	cmd := &cobra.Command{
		Use:   "get KIND [ID]",
		Short: "Print what the node is told to be and what it observes",
		Long: "Print the resources of a kind, or one of them, a line each. Kinds go by their names\n" +
			"in any case, by plurals and by short forms: `get disks` is `get DiskStatus`.\n" +
			"`machinectl get` lists the kinds.",
		Args:              kindArgument,
		ValidArgsFunction: completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, _ := findKind(args[0])
			if err := checkNamespace(kind, namespace); err != nil {
				return err
			}
			c, err := f.dial(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			entries, err := c.List(cmd.Context(), kind.String(), namespace)
			if err != nil {
				return err
			}
			if len(args) < 2 {
				if len(entries) == 0 && (out == formatText || out == formatTable) {
					fmt.Fprintf(cmd.ErrOrStderr(), "the node has no %s\n", kind)
					return nil
				}
				return writeEntries(cmd.OutOrStdout(), out, kind, entries)
			}
			entry, err := findEntry(kind, entries, args[1])
			if err != nil {
				return err
			}
			return writeEntry(cmd.OutOrStdout(), out, kind, entry)
		},
	}
	namespaceFlag(cmd, &namespace)
	out.register(cmd)
	return cmd
}

func findEntry(kind resource.Kind, entries []*machinepb.ResourceEntry, id string) (*machinepb.ResourceEntry, error) {
	var ids []string
	for _, e := range entries {
		if e.GetId() == id {
			return e, nil
		}
		ids = append(ids, word(e.GetId()))
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("get %s %s: the node has no %s", kind, word(id), kind)
	}
	return nil, fmt.Errorf("get %s %s: the node has no such one; it has %s", kind, word(id), strings.Join(ids, ", "))
}

func writeEntries(w io.Writer, out format, kind resource.Kind, entries []*machinepb.ResourceEntry) error {
	switch out {
	case formatText:
		return writeLines(w, entries)
	case formatTable:
		return writeTable(w, entryRows(entries))
	}
	list := []object{}
	for _, e := range entries {
		list = append(list, entryObject(kind, e))
	}
	return writeTree(w, out, list)
}

// writeEntry writes the one that was asked for: an object and not a list of one.
func writeEntry(w io.Writer, out format, kind resource.Kind, e *machinepb.ResourceEntry) error {
	if out == formatJSON || out == formatYAML {
		return writeTree(w, out, entryObject(kind, e))
	}
	return writeEntries(w, out, kind, []*machinepb.ResourceEntry{e})
}

func entryObject(kind resource.Kind, e *machinepb.ResourceEntry) object {
	fields := object{}
	for _, f := range e.GetFields() {
		fields = append(fields, pair{f.GetKey(), f.GetValue()})
	}
	return object{{"kind", kind.String()}, {"namespace", kind.Namespace()}, {"id", e.GetId()}, {"fields", fields}}
}

// entryRows has a column for each key that an entry has.
func entryRows(entries []*machinepb.ResourceEntry) [][]string {
	var keys []string
	for _, e := range entries {
		for _, f := range e.GetFields() {
			if !slices.Contains(keys, f.GetKey()) {
				keys = append(keys, f.GetKey())
			}
		}
	}
	rows := [][]string{{"ID"}}
	for _, k := range keys {
		rows[0] = append(rows[0], strings.ToUpper(cell(k)))
	}
	for _, e := range entries {
		row := make([]string, 1+len(keys))
		row[0] = cell(e.GetId())
		for _, f := range e.GetFields() {
			row[1+slices.Index(keys, f.GetKey())] = cell(f.GetValue())
		}
		rows = append(rows, row)
	}
	return rows
}
