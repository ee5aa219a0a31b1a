package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"machined/api/client"
)

func newReboot(f *nodeFlags) *cobra.Command {
	return newDeed(f, "reboot", "Ask the node for an orderly reboot", "reboot requested", (*client.Client).Reboot)
}

func newShutdown(f *nodeFlags) *cobra.Command {
	return newDeed(f, "shutdown", "Ask the node for an orderly power-off", "shutdown requested", (*client.Client).Shutdown)
}

// newDeed is a command without arguments that prints a word when it is done.
func newDeed(f *nodeFlags, name, short, done string, do func(*client.Client, context.Context) error) *cobra.Command {
	return &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.dial(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := do(c, cmd.Context()); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), done)
			return err
		},
	}
}
