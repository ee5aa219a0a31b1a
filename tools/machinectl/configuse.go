package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newConfigUse() *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "Make a context the current one",
		Args:  cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeContexts(cmd, args, toComplete)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := loadContexts()
			if err != nil {
				return err
			}
			c, err := file.find(args[0])
			if err != nil {
				return err
			}
			file.Current = c.Name
			if err := file.save(); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "current context: %s (%s)\n", c.Name, c.Endpoint)
			return err
		},
	}
}
