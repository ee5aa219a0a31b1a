package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newConfigList() *cobra.Command {
	out := formatText
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the contexts",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := loadContexts()
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if out == formatJSON || out == formatYAML {
				return writeTree(w, out, file.object())
			}
			if len(file.Contexts) == 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), "no contexts; `machinectl config merge` makes one")
				return nil
			}
			rows := [][]string{{"CURRENT", "NAME", "ENDPOINT", "BUNDLE"}}
			for _, c := range file.Contexts {
				mark := ""
				if c.Name == file.Current {
					mark = "*"
				}
				rows = append(rows, []string{mark, c.Name, c.Endpoint, c.Bundle})
			}
			return writeTable(w, rows)
		},
	}
	out.register(cmd)
	return cmd
}

// object is the file as -o json and -o yaml show it.
func (f *contextsFile) object() object {
	contexts := []object{}
	for _, c := range f.Contexts {
		contexts = append(contexts, object{{"name", c.Name}, {"endpoint", c.Endpoint}, {"bundle", c.Bundle}, {"server_name", c.ServerName}})
	}
	return object{{"current", f.Current}, {"contexts", contexts}}
}
