package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newShutdown(f *nodeFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "shutdown",
		Short: "Ask the node for an orderly power-off",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.dial(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.Shutdown(cmd.Context()); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "shutdown requested")
			return err
		},
	}
}
