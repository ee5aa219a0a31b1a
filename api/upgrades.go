package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/url"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"machined/api/machinepb"
)

// Upgrades is what the API asks of a node about what it is to run and to be.
type Upgrades interface {
	// Upgrade has the node fetch a bundle, and returns once that has begun.
	Upgrade(by, location, sum string, o UpgradeOptions) error
	// Push installs the bundle in r, and returns what was written where once the
	// restart into it is asked for.
	Push(ctx context.Context, by string, r io.Reader, o UpgradeOptions) (version, slot string, err error)
	// TryStaged tries what an upgrade has staged earlier.
	TryStaged(by string, kexec bool) error
	// CommitUpgrade keeps a system that is on trial.
	CommitUpgrade(by string) error
	// Rollback restarts into the other slot.
	Rollback(by string) error
	// ApplyConfig checks a config, keeps it and acts on it.
	ApplyConfig(by string, config []byte, dryRun bool) (Applied, error)
	// Install begins to write the node to a disk.
	Install(by, disk string, wipe, noReboot bool) error
	// Reset asks for STATE and EPHEMERAL to be wiped and a restart.
	Reset(by string, keepIdentity bool) error
}

// UpgradeOptions are those of machine.proto.
type UpgradeOptions struct{ Stage, ManualCommit, Kexec bool }

// Applied says what became of a config.
type Applied struct {
	Warnings    []string
	AfterReboot []string
	Unchanged   bool
}

// Cause is what a client can make of a failure.
type Cause uint8

const (
	// Broken is for the node's owner to look into.
	Broken Cause = iota
	// BadInput is for the caller to mend.
	BadInput
	// NotNow is to be asked again in another state of the node.
	NotNow
)

// Failure is an error of a Node with its cause.
type Failure struct {
	Cause Cause
	Err   error
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// failed is the status of a Node's error.
func failed(err error) error {
	var f *Failure
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f) && f.Cause == BadInput:
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.As(err, &f) && f.Cause == NotNow, errors.Is(err, ErrBusy), errors.Is(err, ErrNoRuntime):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Internal, err.Error())
}

func options(o *machinepb.UpgradeOptions) UpgradeOptions {
	return UpgradeOptions{Stage: o.GetStage(), ManualCommit: o.GetManualCommit(), Kexec: o.GetKexec()}
}

// do runs a call that has no answer but its error.
func do(ctx context.Context, run func(by string) error) (*machinepb.Empty, error) {
	_, name, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	if err := run(name); err != nil {
		return nil, failed(err)
	}
	return &machinepb.Empty{}, nil
}

func (s *service) Upgrade(ctx context.Context, r *machinepb.UpgradeRequest) (*machinepb.Empty, error) {
	if r.GetOptions().GetStaged() {
		return do(ctx, func(by string) error { return s.node.TryStaged(by, r.GetOptions().GetKexec()) })
	}
	if u, err := url.Parse(r.GetUrl()); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, status.Errorf(codes.InvalidArgument, "the URL of the bundle is %q; want http://HOST/FILE or https://HOST/FILE", r.GetUrl())
	}
	if sum, err := hex.DecodeString(r.GetSha256()); err != nil || len(sum) != sha256.Size {
		return nil, status.Errorf(codes.InvalidArgument, "the SHA-256 of the bundle is %q; want 64 hexadecimal digits", r.GetSha256())
	}
	return do(ctx, func(by string) error { return s.node.Upgrade(by, r.GetUrl(), r.GetSha256(), options(r.GetOptions())) })
}

func (s *service) Install(ctx context.Context, r *machinepb.InstallRequest) (*machinepb.Empty, error) {
	if !strings.HasPrefix(r.GetDisk(), "/dev/") {
		return nil, status.Errorf(codes.InvalidArgument, "the disk is %q; want a path such as /dev/sda, see DiskStatus", r.GetDisk())
	}
	return do(ctx, func(by string) error { return s.node.Install(by, r.GetDisk(), r.GetWipe(), r.GetNoReboot()) })
}

func (s *service) UpgradeCommit(ctx context.Context, _ *machinepb.Empty) (*machinepb.Empty, error) {
	return do(ctx, s.node.CommitUpgrade)
}

func (s *service) Rollback(ctx context.Context, _ *machinepb.Empty) (*machinepb.Empty, error) {
	return do(ctx, s.node.Rollback)
}

func (s *service) Reset(ctx context.Context, _ *machinepb.Empty) (*machinepb.Empty, error) {
	return do(ctx, func(by string) error { return s.node.Reset(by, false) })
}

func (s *service) ResetKeepIdentity(ctx context.Context, _ *machinepb.Empty) (*machinepb.Empty, error) {
	return do(ctx, func(by string) error { return s.node.Reset(by, true) })
}

func (s *service) ApplyConfig(ctx context.Context, r *machinepb.ApplyConfigRequest) (*machinepb.ApplyConfigResponse, error) {
	_, name, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	a, err := s.node.ApplyConfig(name, r.GetConfig(), r.GetDryRun())
	if err != nil {
		return nil, failed(err)
	}
	return &machinepb.ApplyConfigResponse{Warnings: a.Warnings, AfterReboot: a.AfterReboot, Unchanged: a.Unchanged}, nil
}

func (s *service) UpgradePush(stream grpc.ClientStreamingServer[machinepb.UpgradeChunk, machinepb.UpgradeResponse]) error {
	_, name, err := caller(stream.Context())
	if err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	r := &chunks{stream: stream, left: first.GetData()}
	version, slot, err := s.node.Push(stream.Context(), name, r, options(first.GetOptions()))
	if err != nil {
		return failed(err)
	}
	return stream.SendAndClose(&machinepb.UpgradeResponse{Version: version, Slot: slot})
}

// chunks reads what a client sends in pieces.
type chunks struct {
	stream grpc.ClientStreamingServer[machinepb.UpgradeChunk, machinepb.UpgradeResponse]
	left   []byte
}

func (c *chunks) Read(b []byte) (int, error) {
	for len(c.left) == 0 {
		next, err := c.stream.Recv()
		if err != nil {
			return 0, err
		}
		c.left = next.GetData()
	}
	n := copy(b, c.left)
	c.left = c.left[n:]
	return n, nil
}
