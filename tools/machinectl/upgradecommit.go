package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"machined/api/client"
)

func newCommit(f *nodeFlags) *cobra.Command {
	return newDeed(f, "commit", "Keep the version that is on trial", "committed", (*client.Client).CommitUpgrade)
}

func newRollback(f *nodeFlags) *cobra.Command {
	return newDeed(f, "rollback", "Restart into the other slot's version", "rollback requested", (*client.Client).Rollback)
}

func newReset(f *nodeFlags) *cobra.Command {
	yes, keep := false, false
	cmd := &cobra.Command{
		Use:   "reset --yes",
		Short: "Wipe STATE and EPHEMERAL, and restart the node as new",
		Long: "Wipe STATE and EPHEMERAL, and restart the node as new: its config from the boot\n" +
			"partition, no data, and another identity unless --keep-identity is given or the\n" +
			"image has one. The boot partition with both slots stays as it is.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes {
				return usagef("reset wipes all that the node has kept; say --yes if that is what you want")
			}
			c, err := f.dial(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.Reset(cmd.Context(), keep); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "reset requested")
			return err
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	cmd.Flags().BoolVar(&keep, "keep-identity", false, "keep the node's keys and certificates")
	return cmd
}

func newApply(f *nodeFlags) *cobra.Command {
	dryRun := false
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Check a machine config, and have the node keep it and act on it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			c, err := f.dial(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			resp, err := c.ApplyConfig(cmd.Context(), text, dryRun)
			if err != nil {
				return err
			}
			for _, w := range resp.GetWarnings() {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
			}
			for _, what := range resp.GetAfterReboot() {
				fmt.Fprintln(cmd.ErrOrStderr(), "after the next boot:", what)
			}
			said := "applied"
			switch {
			case resp.GetUnchanged():
				said = "unchanged"
			case dryRun:
				said = "valid, not applied"
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), said)
			return err
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check it, and change nothing")
	return cmd
}
