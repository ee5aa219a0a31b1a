package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"machined/tools/pkidir"
)

func newPKI() *cobra.Command {
	cmd := &cobra.Command{Use: "pki", Short: "Make the keys and certificates of nodes and their clients"}
	cmd.AddCommand(newPKINew())
	return cmd
}

func newPKINew() *cobra.Command {
	var name string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "new DIR",
		Short: "Make a CA, and admin, operator and reader bundles",
		Long: "Make a CA in DIR/ca and client bundles in DIR/bundles/admin, operator and reader.\n" +
			"The CA's key stays in DIR; `machinectl image build --pki DIR` issues a certificate for each node.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := pkidir.New(args[0], name, ttl, time.Now()); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "CA in %s, bundles in %s; keep the CA's key off the nodes and backed up\n",
				filepath.Join(args[0], pkidir.CA), filepath.Join(args[0], pkidir.Bundles))
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "machined", "name of the CA")
	cmd.Flags().DurationVar(&ttl, "ttl", 365*24*time.Hour, "how long client certificates are valid")
	return cmd
}
