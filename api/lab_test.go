package api_test

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"machined/api"
	"machined/api/apitest"
	"machined/api/pki"
	"machined/reconcile/resource"
)

// made is when the certificates of the tests are issued.
func made() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

func at(d time.Duration) func() time.Time {
	return func() time.Time { return made().Add(d) }
}

// lab is a node that serves, and its CA.
type lab struct {
	ca     *pki.CA
	node   *apitest.Node
	server *api.Server
	addr   string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{ca: apitest.NewCA(t, "lab CA", made()), node: &apitest.Node{
		Info: api.Version{Version: "v1.2.3", ImageID: "abc", Board: "pi3aplus", Slot: "A", BootID: "b", Kernel: "6.12"},
		Resources: map[resource.Kind][]resource.Resource{
			resource.LinkStatusKind: {resource.LinkStatus{Name: "eth0", MTU: 1500}},
		},
	}}
	l.server, l.addr = apitest.Serve(t, l.node, pki.NodeTLS(apitest.NewNode(t, l.ca, made()), at(0)))
	return l
}

// bundle returns the bundle of a client with the given organizations.
func (l *lab) bundle(t *testing.T, organizations ...string) *pki.Bundle {
	t.Helper()
	return &pki.Bundle{Identity: apitest.Sign(t, l.ca, made(), 24*time.Hour, organizations...), CACert: l.ca.Cert}
}

func clientTLS(b *pki.Bundle) *tls.Config {
	config := pki.ClientTLS(b, "")
	config.Time = at(0)
	return config
}

// dial returns a plain gRPC connection, as other clients than ours make.
func (l *lab) dial(t *testing.T, b *pki.Bundle) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+l.addr, grpc.WithTransportCredentials(credentials.NewTLS(clientTLS(b))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}
