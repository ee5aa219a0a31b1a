package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newReboot(f *nodeFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "reboot",
		Short: "Ask the node for an orderly reboot",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.dial(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.Reboot(cmd.Context()); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "reboot requested")
			return err
		},
	}
}
