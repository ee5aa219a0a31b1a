package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"machined/board"
	"machined/tools/qemu"
)

func newQEMU() *cobra.Command {
	var o qemu.Options
	var name string
	cmd := &cobra.Command{
		Use:   "qemu IMAGE",
		Short: "Run an image in QEMU, on the machine that models its board",
		Long:  "Run an image in QEMU and show its console until the machine switches off or Ctrl-C.\nThe image is not written to: name --disk to keep what the node writes.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, ok := board.ByName(name)
			if !ok {
				return fmt.Errorf("unknown board %q; known are %s", name, board.Names())
			}
			o.Board, o.Image, o.Console = b, args[0], os.Stdout
			vm, err := qemu.Start(o)
			if err != nil {
				return err
			}
			defer vm.Close()
			if err := vm.Wait(cmd.Context()); err != nil && !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "board", "", "board: "+board.Names())
	cmd.Flags().StringVar(&o.Disk, "disk", "", "working copy of the image, made where it does not exist and kept")
	cmd.Flags().IntVar(&o.MemoryMB, "memory", 512, "memory in MiB")
	cmd.Flags().IntVar(&o.APIPort, "port", 50000, "port on 127.0.0.1 that leads to the node's API")
	cmd.Flags().StringVar(&o.Append, "append", "", "more kernel arguments (boards whose firmware is modelled)")
	if err := cmd.MarkFlagRequired("board"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}
