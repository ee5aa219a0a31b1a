package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"machined/api/client"
	"machined/api/machinepb"
	"machined/tools/progress"
)

// upgradeFlags are the flags of `upgrade`.
type upgradeFlags struct {
	stage, staged, manual, noWait, kexec bool
	wait                                 time.Duration
}

func newUpgrade(f *nodeFlags) *cobra.Command {
	var u upgradeFlags
	cmd := &cobra.Command{
		Use:   "upgrade FILE | upgrade URL SHA256 | upgrade --staged",
		Short: "Install a bundle into the slot that does not run, and try it",
		Long: "Install a bundle into the slot that does not run, restart into it, and wait until\n" +
			"it was healthy for long enough to be kept. When it is not healthy in time, or does\n" +
			"not come up at all, the node goes back to the version before, and this command says\n" +
			"why and fails. FILE is sent to the node; a URL is fetched by the node itself.",
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := u.check(args); err != nil {
				return err
			}
			c, err := f.dial(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			return u.run(cmd, c, args)
		},
	}
	cmd.Flags().BoolVar(&u.stage, "stage", false, "write the bundle to the node and do not try it")
	cmd.Flags().BoolVar(&u.staged, "staged", false, "try what was written with --stage")
	cmd.Flags().BoolVar(&u.manual, "manual-commit", false, "leave it to `machinectl commit` to keep the new version")
	cmd.Flags().BoolVar(&u.kexec, "kexec", false, "start the new version at once, without the firmware, and never keep it: a restart goes back")
	cmd.Flags().BoolVar(&u.noWait, "no-wait", false, "return once the node restarts")
	cmd.Flags().DurationVar(&u.wait, "wait", 20*time.Minute, "time to wait for the node to keep the new version")
	return cmd
}

func (u *upgradeFlags) check(args []string) error {
	isURL := len(args) > 0 && (strings.HasPrefix(args[0], "http://") || strings.HasPrefix(args[0], "https://"))
	want := 1
	switch {
	case u.staged:
		want = 0
	case isURL:
		want = 2
	}
	if len(args) != want || u.staged && (u.stage || u.manual) {
		return usagef("give a FILE, or a URL and the SHA-256 of what is there, or --staged alone")
	}
	if u.kexec && (u.stage || u.manual) {
		return usagef("--kexec tries the new version at once and never keeps it: leave --stage and --manual-commit away")
	}
	return nil
}

func (u *upgradeFlags) run(cmd *cobra.Command, c *client.Client, args []string) error {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	before, err := c.Version(ctx)
	if err != nil {
		return err
	}
	o := &machinepb.UpgradeOptions{Stage: u.stage, ManualCommit: u.manual, Kexec: u.kexec}
	f := &follower{client: c, out: cmd.OutOrStdout(), err: stderr, before: before, manual: u.manual, kexec: u.kexec}
	switch len(args) {
	case 0:
		if err := c.TryStaged(ctx, u.kexec); err != nil {
			return err
		}
	case 2:
		if err := c.Upgrade(ctx, args[0], args[1], o); err != nil {
			return err
		}
		if err := f.fetched(ctx, u.stage); err != nil {
			return err
		}
	default:
		if err := push(ctx, c, args[0], o, stderr); err != nil {
			return err
		}
	}
	s, err := c.Upgrading(ctx)
	switch {
	case u.stage && err != nil:
		return err
	case u.stage:
		fmt.Fprintf(f.out, "version %s is staged in slot %s\n", word(s["to_version"]), word(s["slot"]))
		return nil
	case u.noWait:
		fmt.Fprintln(f.out, "restarting into the new version")
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, u.wait)
	defer cancel()
	return f.follow(ctx)
}

// push sends a file with a progress bar.
func push(ctx context.Context, c *client.Client, path string, o *machinepb.UpgradeOptions, stderr io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	r := &metered{Reader: file, total: info.Size(), show: progress.Bytes(stderr, "sending "+path)}
	resp, err := c.Push(ctx, r, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "version %s is written to slot %s and verified\n", word(resp.GetVersion()), word(resp.GetSlot()))
	return nil
}

// metered tells how much was read.
type metered struct {
	io.Reader
	done, total int64
	show        func(done, total int64)
}

func (m *metered) Read(b []byte) (int, error) {
	n, err := m.Reader.Read(b)
	m.done += int64(n)
	if m.show != nil {
		m.show(m.done, m.total)
	}
	return n, err
}

// follower watches an upgrade to its end.
type follower struct {
	client   *client.Client
	out, err io.Writer
	before   *machinepb.VersionResponse
	manual   bool
	kexec    bool
	said     string
}

// upgradePoll is how often the node is asked.
const upgradePoll = time.Second

// errRolledBack says that the node runs what it ran before.
var errRolledBack = errors.New("the upgrade was not kept")

// fetched waits until the node has fetched and verified a bundle.
func (f *follower) fetched(ctx context.Context, stage bool) error {
	show := progress.Bytes(f.err, "the node fetches the bundle")
	for {
		s, err := f.client.Upgrading(ctx)
		if err != nil {
			if ctx.Err() != nil || stage {
				return err
			}
			return nil // it restarts
		}
		var done, total int64
		fmt.Sscan(s["bytes"], &done)
		fmt.Sscan(s["total_bytes"], &total)
		if show != nil && total > 0 {
			show(done, total)
		}
		switch s["phase"] {
		case "Failed":
			return fmt.Errorf("%w: %s", errRolledBack, s["message"])
		case "Staged", "Trying", "Committed", "RolledBack":
			return nil
		}
		if err := sleep(ctx, upgradePoll); err != nil {
			return err
		}
	}
}

// follow waits until the node has kept the new version, or has gone back.
func (f *follower) follow(ctx context.Context) error {
	stop := progress.Spin(f.err, "waiting for the new version to be kept")
	defer stop()
	for {
		if v, err := f.client.Version(ctx); err == nil {
			s, err := f.client.Upgrading(ctx)
			switch restarted := v.GetBootId() != f.before.GetBootId(); {
			case err != nil: // it goes down
			case restarted:
				if done, err := f.judge(v, s); done {
					return err
				}
			case s["phase"] == "Failed":
				return fmt.Errorf("%w: %s", errRolledBack, s["message"])
			}
		} else if errors.Is(err, client.ErrClientRefused) || errors.Is(err, client.ErrForeignNode) {
			return err
		}
		if err := sleep(ctx, upgradePoll); err != nil {
			return fmt.Errorf("the node has not said how the upgrade ended; see `machinectl get UpgradeStatus`: %w", err)
		}
	}
}

// judge reports whether an upgrade has ended, and how.
func (f *follower) judge(v *machinepb.VersionResponse, s map[string]string) (bool, error) {
	switch s["phase"] {
	case "Committed":
		fmt.Fprintf(f.out, "version %s runs in slot %s and is kept\n", word(s["to_version"]), word(v.GetSlot()))
		return true, nil
	case "RolledBack":
		return true, fmt.Errorf("%w, version %s runs again: %s", errRolledBack, word(s["from_version"]), s["message"])
	case "Staged":
		return true, fmt.Errorf("%w, version %s runs again: %s", errRolledBack, word(s["from_version"]), s["message"])
	case "Trying":
		if f.kexec && strings.HasPrefix(s["message"], "healthy; started by kexec") {
			fmt.Fprintf(f.out, "version %s runs in slot %s and is %s\n", word(s["to_version"]), word(v.GetSlot()), s["message"])
			return true, nil
		}
		if f.manual && strings.HasPrefix(s["message"], "healthy;") {
			fmt.Fprintf(f.out, "version %s runs in slot %s and is healthy; `machinectl commit` keeps it\n", word(s["to_version"]), word(v.GetSlot()))
			return true, nil
		}
	}
	if f.said != s["message"] {
		f.said = s["message"]
		fmt.Fprintf(f.err, "version %s: %s\n", word(s["to_version"]), s["message"])
	}
	return false, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
