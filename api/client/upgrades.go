package client

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"machined/api/machinepb"
)

// ErrRefused: the node does not take what it was given.
const ErrRefused = Cause("refused by the node")

// refineRefusal takes the node's own words for why it does not take a bundle or a
// config, or not now.
func refineRefusal(err error) error {
	e, st := answer(err)
	if e == nil {
		return err
	}
	switch st.Code() {
	case codes.InvalidArgument:
		e.Cause, e.Message = ErrRefused, lines(st.Message())
	case codes.FailedPrecondition:
		e.Cause, e.Message = ErrBusy, clean(st.Message())
	}
	return err
}

// lines is clean for a message of several lines.
func lines(s string) string {
	parts := strings.Split(s, "\n")
	for i := range parts {
		parts[i] = clean(parts[i])
	}
	return strings.Join(parts, "\n")
}

// Upgrade has the node fetch a bundle, whose SHA-256 is given in hex, and try it.
// It returns once that has begun.
func (c *Client) Upgrade(ctx context.Context, location, sha256 string, o *machinepb.UpgradeOptions) error {
	return refineRefusal(c.call(ctx, "upgrade", func(ctx context.Context) error {
		_, err := c.service.Upgrade(ctx, &machinepb.UpgradeRequest{Url: location, Sha256: sha256, Options: o})
		return err
	}))
}

// Upgrading returns the fields of the node's UpgradeStatus, none if it was never
// upgraded.
func (c *Client) Upgrading(ctx context.Context) (map[string]string, error) {
	return c.one(ctx, "UpgradeStatus")
}

// Installing returns the fields of the node's InstallStatus, none if it was never
// to be installed.
func (c *Client) Installing(ctx context.Context) (map[string]string, error) {
	return c.one(ctx, "InstallStatus")
}

// one returns the fields of a kind that has one resource at most.
func (c *Client) one(ctx context.Context, kind string) (map[string]string, error) {
	entries, err := c.List(ctx, kind, "")
	fields := make(map[string]string)
	for _, e := range entries {
		for _, f := range e.GetFields() {
			fields[f.GetKey()] = clean(f.GetValue())
		}
	}
	return fields, err
}

// TryStaged has the node try what an upgrade has staged earlier, by its firmware
// or by kexec.
func (c *Client) TryStaged(ctx context.Context, kexec bool) error {
	return refineRefusal(c.callWithin(ctx, "try the staged version of", max(c.options.Timeout, time.Minute), func(ctx context.Context) error {
		_, err := c.service.Upgrade(ctx, &machinepb.UpgradeRequest{Options: &machinepb.UpgradeOptions{Staged: true, Kexec: kexec}})
		return err
	}))
}

const (
	// pushChunk is how much of a bundle goes into a message, in bytes.
	pushChunk = 64 << 10
	// pushTime bounds the sending of a bundle: to a slow card, through a slow link.
	pushTime = time.Hour
)

// Push sends a bundle to the node, which tries it, and returns what was written
// where once it is on the node's disk.
func (c *Client) Push(ctx context.Context, bundle io.Reader, o *machinepb.UpgradeOptions) (*machinepb.UpgradeResponse, error) {
	var resp *machinepb.UpgradeResponse
	var local error // of reading the bundle
	err := c.callWithin(ctx, "upgrade", pushTime, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.service.UpgradePush(ctx)
		if err != nil {
			return err
		}
		next := &machinepb.UpgradeChunk{Options: o}
		buf := make([]byte, pushChunk)
		for {
			n, readErr := io.ReadFull(bundle, buf)
			if next.Data = buf[:n]; n > 0 {
				if err := stream.Send(next); errors.Is(err, io.EOF) {
					break // the answer says why
				} else if err != nil {
					return err
				}
				next = &machinepb.UpgradeChunk{}
			}
			if readErr == nil {
				continue
			}
			if !errors.Is(readErr, io.EOF) && !errors.Is(readErr, io.ErrUnexpectedEOF) {
				local = readErr
				return readErr
			}
			break
		}
		resp, err = stream.CloseAndRecv()
		return err
	})
	if local != nil {
		return nil, local
	}
	return resp, refineRefusal(err)
}

// CommitUpgrade keeps the system that the node has on trial.
func (c *Client) CommitUpgrade(ctx context.Context) error {
	return refineRefusal(c.callWithin(ctx, "commit the upgrade of", max(c.options.Timeout, time.Minute), func(ctx context.Context) error {
		_, err := c.service.UpgradeCommit(ctx, &machinepb.Empty{})
		return err
	}))
}

// Rollback has the node restart into its other slot.
func (c *Client) Rollback(ctx context.Context) error {
	return refineRefusal(c.callWithin(ctx, "roll back", max(c.options.Timeout, time.Minute), func(ctx context.Context) error {
		_, err := c.service.Rollback(ctx, &machinepb.Empty{})
		return err
	}))
}

// Install has the node write itself to a disk. It returns once that has begun.
func (c *Client) Install(ctx context.Context, disk string, wipe, noReboot bool) error {
	return refineRefusal(c.callWithin(ctx, "install", max(c.options.Timeout, time.Minute), func(ctx context.Context) error {
		_, err := c.service.Install(ctx, &machinepb.InstallRequest{Disk: disk, Wipe: wipe, NoReboot: noReboot})
		return err
	}))
}

// ApplyConfig has the node check a config and, unless it is a dry run, keep it and
// act on it.
func (c *Client) ApplyConfig(ctx context.Context, config []byte, dryRun bool) (*machinepb.ApplyConfigResponse, error) {
	var resp *machinepb.ApplyConfigResponse
	err := c.callWithin(ctx, "apply a config to", max(c.options.Timeout, 30*time.Second), func(ctx context.Context) (err error) {
		resp, err = c.service.ApplyConfig(ctx, &machinepb.ApplyConfigRequest{Config: config, DryRun: dryRun})
		return err
	})
	return resp, refineRefusal(err)
}

// Reset has the node wipe STATE and EPHEMERAL, and restart. It returns before that
// happens.
func (c *Client) Reset(ctx context.Context, keepIdentity bool) error {
	call := c.service.Reset
	if keepIdentity {
		call = c.service.ResetKeepIdentity
	}
	return refineRefusal(c.call(ctx, "reset", func(ctx context.Context) error {
		_, err := call(ctx, &machinepb.Empty{})
		return err
	}))
}
