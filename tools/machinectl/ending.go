package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"machined/api/client"
)

func newReboot(f *nodeFlags) *cobra.Command {
	return newEnding(f, "reboot", "Ask the node for an orderly reboot", (*client.Client).Reboot)
}

func newShutdown(f *nodeFlags) *cobra.Command {
	return newEnding(f, "shutdown", "Ask the node for an orderly power-off", (*client.Client).Shutdown)
}

// newEnding is a command that asks the node to end this boot.
func newEnding(f *nodeFlags, name, short string, ask func(*client.Client, context.Context) error) *cobra.Command {
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
			if err := ask(c, cmd.Context()); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), name, "requested")
			return err
		},
	}
}
