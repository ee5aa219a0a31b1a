// Package client talks to the management API of a node, and says in one
// sentence why it could not.
package client

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"machined/api/machinepb"
	"machined/api/pki"
)

const (
	// DefaultPort is the TCP port of an endpoint that names none.
	DefaultPort = "50000"
	// DefaultTimeout is how long a call may take, connecting included.
	DefaultTimeout = 10 * time.Second
	// maxMessage is the largest answer that is taken, in bytes.
	maxMessage = 16 << 20
)

// Options change how a client connects. The zero value is good.
type Options struct {
	// ServerName is what the node's certificate must be for; empty stands for
	// pki.NodeServerName, which every node has.
	ServerName string
	// Timeout bounds each call, connecting included; 0 stands for
	// DefaultTimeout.
	Timeout time.Duration
	// BundleDir is the bundle's directory, for messages; it is not read.
	BundleDir string
	// Now is the clock that certificates are judged by; nil stands for
	// time.Now.
	Now func() time.Time
}

// Client calls one node. It is safe for concurrent use.
type Client struct {
	endpoint string
	bundle   *pki.Bundle
	options  Options
	link     *link
	conn     *grpc.ClientConn
	service  machinepb.MachineServiceClient
}

// Dial returns a client for an endpoint: "https://host:port", "host:port" or
// "host", where an IPv6 address with a port is in brackets. It connects at the
// first call. What is wrong with the endpoint or the bundle is an *Error here
// already: ErrEndpoint, ErrClientCertTime.
func Dial(endpoint string, bundle *pki.Bundle, o Options) (*Client, error) {
	address, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, &Error{Op: "use endpoint", Target: quote(endpoint), Cause: ErrEndpoint, Message: err.Error()}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	c := &Client{endpoint: address, bundle: bundle, options: o, link: &link{address: address}}
	if err := c.checkBundle(); err != nil {
		return nil, err
	}
	config := pki.ClientTLS(bundle, o.ServerName)
	config.Time = o.Now
	// The link resolves and dials the address itself, so that its errors are not
	// lost in gRPC's, and so that no proxy of the environment comes between. The
	// name in the target is never looked up.
	c.conn, err = grpc.NewClient("passthrough:///node",
		grpc.WithTransportCredentials(watched{credentials.NewTLS(config), c.link}),
		grpc.WithContextDialer(c.link.dial),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		// A watch hears nothing of a node that has lost its power.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: o.Timeout}),
	)
	if err != nil {
		return nil, &Error{Op: "connect to", Target: address, Cause: ErrEndpoint, Message: err.Error(), Err: err}
	}
	c.service = machinepb.NewMachineServiceClient(c.conn)
	return c, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Version returns what the node runs.
func (c *Client) Version(ctx context.Context) (*machinepb.VersionResponse, error) {
	var resp *machinepb.VersionResponse
	err := c.call(ctx, "get the version of", func(ctx context.Context) (err error) {
		resp, err = c.service.Version(ctx, &machinepb.Empty{})
		return err
	})
	return resp, err
}

// List returns the resources of a kind, ordered by id. An empty namespace
// stands for the kind's own.
func (c *Client) List(ctx context.Context, kind, namespace string) ([]*machinepb.ResourceEntry, error) {
	var resp *machinepb.ListResourcesResponse
	err := c.call(ctx, "list "+clean(kind)+" of", func(ctx context.Context) (err error) {
		resp, err = c.service.ListResources(ctx, &machinepb.ListResourcesRequest{Type: kind, Namespace: namespace})
		return err
	})
	if err != nil {
		return nil, refineList(err, kind, namespace)
	}
	return resp.GetEntries(), nil
}

// Reboot asks the node for an orderly reboot. It returns before that happens.
func (c *Client) Reboot(ctx context.Context) error {
	return c.call(ctx, "reboot", func(ctx context.Context) error {
		_, err := c.service.Reboot(ctx, &machinepb.Empty{})
		return err
	})
}

// Shutdown asks the node for an orderly power-off. It returns before that
// happens.
func (c *Client) Shutdown(ctx context.Context) error {
	return c.call(ctx, "shut down", func(ctx context.Context) error {
		_, err := c.service.Shutdown(ctx, &machinepb.Empty{})
		return err
	})
}

// stream prepares a streaming call, which is bound by the time limit of a call
// until begun is called. explain is for its errors; op is as in call.
func (c *Client) stream(ctx context.Context, op string) (_ context.Context, begun func() bool, explain func(error) error, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(c.options.Timeout, func() { cancel(context.DeadlineExceeded) })
	explain = func(err error) error {
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			err = status.FromContextError(context.DeadlineExceeded).Err()
		}
		e := c.explain(err, c.options.Timeout)
		e.Op, e.Target = op, c.endpoint
		return e
	}
	return ctx, late.Stop, explain, func() { late.Stop(); cancel(nil) }
}

// call runs one call within the time limit. op is a verb that goes before the
// endpoint in messages.
func (c *Client) call(ctx context.Context, op string, do func(context.Context) error) error {
	return c.callWithin(ctx, op, c.options.Timeout, do)
}

func (c *Client) callWithin(ctx context.Context, op string, wait time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	deadline, _ := ctx.Deadline()
	limit := time.Until(deadline).Round(10 * time.Millisecond)
	if err := do(ctx); err != nil {
		e := c.explain(err, limit)
		e.Op, e.Target = op, c.endpoint
		return e
	}
	return nil
}
