package main

import "github.com/spf13/cobra"

func newConfig(f *nodeFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Keep nodes by name: contexts",
		Long: "Keep nodes by name. A context is an endpoint and the bundle that opens it; one of\n" +
			"them is the current one. They are in the file that `machinectl config path` prints,\n" +
			"and their bundles beside it.",
	}
	cmd.AddCommand(newConfigUse(), newConfigList(), newConfigMerge(f), newConfigPath())
	return cmd
}
