package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"machined/api/machinepb"
)

func newVersion(f *nodeFlags) *cobra.Command {
	out := formatText
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program and of the node",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := cmd.OutOrStdout()
			// This program's version is known whatever becomes of the rest.
			if out == formatText {
				fmt.Fprintf(w, "client  %s\n", version)
			}
			c, err := f.dial(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			v, err := c.Version(cmd.Context())
			if err != nil {
				return err
			}
			switch out {
			case formatText:
				_, err = fmt.Fprintf(w, "node    %s\n", versionLine(v))
				return err
			case formatTable:
				return writeTable(w, [][]string{
					{"", "VERSION", "BOARD", "SLOT", "KERNEL", "IMAGE"},
					{"client", version, "", "", "", ""},
					{"node", cell(v.GetVersion()), cell(v.GetBoard()), cell(v.GetSlot()), cell(v.GetKernel()), cell(shortHash(v.GetImageId()))},
				})
			}
			return writeTree(w, out, versionObject(v))
		},
	}
	out.register(cmd)
	return cmd
}

func versionLine(v *machinepb.VersionResponse) string {
	line := word(v.GetVersion())
	for _, f := range []struct{ key, value string }{
		{"board", v.GetBoard()}, {"slot", v.GetSlot()}, {"kernel", v.GetKernel()}, {"image", shortHash(v.GetImageId())},
	} {
		// An older node leaves out what it does not know.
		if f.value != "" {
			line += " " + f.key + "=" + word(f.value)
		}
	}
	return line
}

func versionObject(v *machinepb.VersionResponse) object {
	return object{
		{"client", object{{"version", version}}},
		{"node", object{
			{"version", v.GetVersion()}, {"image_id", v.GetImageId()}, {"board", v.GetBoard()},
			{"slot", v.GetSlot()}, {"boot_id", v.GetBootId()}, {"kernel", v.GetKernel()},
		}},
	}
}

// shortHash is enough of a hash for a person to tell images apart.
func shortHash(hash string) string { return hash[:min(len(hash), 12)] }
