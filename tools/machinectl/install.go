package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"machined/api/client"
	"machined/tools/progress"
)

// errNotInstalled says that the disk does not boot the node.
var errNotInstalled = errors.New("the node was not installed")

// installFlags are the flags of `install`.
type installFlags struct {
	disk                   string
	wipe, noReboot, noWait bool
	wait                   time.Duration
}

func newInstall(f *nodeFlags) *cobra.Command {
	var i installFlags
	cmd := &cobra.Command{
		Use:   "install --disk DISK",
		Short: "Have a node that runs from RAM or a stick write itself to a disk",
		Long: "Have a node that was netbooted, or that runs from another disk such as a USB stick,\n" +
			"write itself to a disk: boot partition, both slots, config and identity. It restarts\n" +
			"then, to boot from there. A disk that holds anything is refused without --wipe, and\n" +
			"one that holds a node is refused with it, too.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.dial(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			return i.run(cmd, c)
		},
	}
	cmd.Flags().StringVar(&i.disk, "disk", "", "path of the disk on the node, such as /dev/sda; `machinectl get DiskStatus` lists them")
	cmd.Flags().BoolVar(&i.wipe, "wipe", false, "destroy what is on the disk")
	cmd.Flags().BoolVar(&i.noReboot, "no-reboot", false, "do not restart when it is done")
	cmd.Flags().BoolVar(&i.noWait, "no-wait", false, "return once the node has begun")
	cmd.Flags().DurationVar(&i.wait, "wait", 20*time.Minute, "time to wait for the node to be done")
	if err := cmd.MarkFlagRequired("disk"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

func (i *installFlags) run(cmd *cobra.Command, c *client.Client) error {
	ctx := cmd.Context()
	before, err := c.Version(ctx)
	if err != nil {
		return err
	}
	if err := c.Install(ctx, i.disk, i.wipe, i.noReboot); err != nil {
		return err
	}
	if i.noWait {
		fmt.Fprintf(cmd.OutOrStdout(), "installing on %s\n", i.disk)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, i.wait)
	defer cancel()
	show := progress.Bytes(cmd.ErrOrStderr(), "writing "+i.disk)
	for {
		s, err := c.Installing(ctx)
		var done, total int64
		fmt.Sscan(s["bytes"], &done)
		fmt.Sscan(s["total_bytes"], &total)
		if show != nil && total > 0 {
			show(done, total)
		}
		switch {
		case s["phase"] == "Failed" || s["phase"] == "Refused":
			return fmt.Errorf("%w: %s", errNotInstalled, s["message"])
		case s["phase"] == "Installed" && i.noReboot:
			fmt.Fprintf(cmd.OutOrStdout(), "installed on %s; a restart boots from it\n", i.disk)
			return nil
		case s["phase"] == "Installed", err != nil && ctx.Err() == nil:
			return i.follow(ctx, cmd, c, before.GetBootId())
		}
		if err := sleep(ctx, upgradePoll); err != nil {
			return fmt.Errorf("the node has not said how the installation ended; see `machinectl get InstallStatus`: %w", err)
		}
	}
}

// follow waits until the node is up from its disk: another boot, with a slot.
func (i *installFlags) follow(ctx context.Context, cmd *cobra.Command, c *client.Client, before string) error {
	stop := progress.Spin(cmd.ErrOrStderr(), "waiting for the node to boot from "+i.disk)
	defer stop()
	for {
		if v, err := c.Version(ctx); err == nil && v.GetBootId() != before {
			if v.GetSlot() == "" {
				return fmt.Errorf("%w: it has booted from the network again; have its firmware boot from %s", errNotInstalled, i.disk)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "installed on %s, slot %s runs\n", i.disk, word(v.GetSlot()))
			return nil
		} else if errors.Is(err, client.ErrClientRefused) || errors.Is(err, client.ErrForeignNode) {
			return err
		}
		if err := sleep(ctx, upgradePoll); err != nil {
			return fmt.Errorf("%s is written, and the node has not come up from it; see its console: %w", i.disk, err)
		}
	}
}
