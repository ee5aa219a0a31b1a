package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"machined/api"
	"machined/api/apitest"
	"machined/api/pki"
	"machined/reconcile/resource"
)

const day = 24 * time.Hour

// made is when the certificates of the tests are issued.
func made() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

func at(d time.Duration) func() time.Time {
	return func() time.Time { return made().Add(d) }
}

// lab is a node with its CA.
type lab struct {
	ca   *pki.CA
	pki  *pki.Node
	node *apitest.Node
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{ca: apitest.NewCA(t, "lab CA", made()), node: &apitest.Node{
		Info: api.Version{Version: "v1.2.3", ImageID: "abc", Board: "pi3aplus", Slot: "A", BootID: "b", Kernel: "6.12"},
		Resources: map[resource.Kind][]resource.Resource{
			resource.LinkStatusKind: {resource.LinkStatus{Name: "eth0", Up: true, MTU: 1500}},
		},
	}}
	l.pki = apitest.NewNode(t, l.ca, made())
	return l
}

func (l *lab) bundle(t *testing.T, roles ...pki.Role) *pki.Bundle {
	t.Helper()
	return apitest.NewBundle(t, l.ca, made(), 365*day, roles...)
}

// serve serves the node with its clock at made.
func (l *lab) serve(t *testing.T) (*api.Server, string) {
	t.Helper()
	return apitest.Serve(t, l.node, pki.NodeTLS(l.pki, at(0)))
}

func dial(t *testing.T, endpoint string, b *pki.Bundle, o Options) *Client {
	t.Helper()
	if o.Now == nil {
		o.Now = at(0)
	}
	o.BundleDir = "lab"
	c, err := Dial(endpoint, b, o)
	if err != nil {
		t.Fatalf("Dial(%s) = %v; want no error", endpoint, err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestCalls(t *testing.T) {
	l := newLab(t)
	_, addr := l.serve(t)
	c := dial(t, "https://"+addr, l.bundle(t, pki.RoleOperator), Options{})
	ctx := context.Background()

	v, err := c.Version(ctx)
	if err != nil || v.GetVersion() != "v1.2.3" || v.GetSlot() != "A" || v.GetImageId() != "abc" {
		t.Errorf("Version = %v, %v; want the node's", v, err)
	}
	for _, namespace := range []string{"", resource.Network} {
		entries, err := c.List(ctx, "LinkStatus", namespace)
		if err != nil || len(entries) != 1 || entries[0].GetId() != "eth0" || entries[0].GetFields()[2].GetValue() != "1500" {
			t.Errorf("List(LinkStatus, %q) = %v, %v; want eth0", namespace, entries, err)
		}
	}
	if entries, err := c.List(ctx, "DiskStatus", ""); err != nil || len(entries) != 0 {
		t.Errorf("List(DiskStatus) = %v, %v; want none", entries, err)
	}
	if err := c.Reboot(ctx); err != nil {
		t.Errorf("Reboot = %v; want no error", err)
	}
	if err := c.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown = %v; want no error", err)
	}
	if got, want := l.node.Asked(), []string{"reboot by laptop", "shutdown by laptop"}; !slices.Equal(got, want) {
		t.Errorf("the node was asked for %q; want %q", got, want)
	}
}

// The node's other names are good too, and a name that it has not is refused.
func TestServerName(t *testing.T) {
	l := newLab(t)
	_, addr := l.serve(t)
	b := l.bundle(t, pki.RoleReader)
	if _, err := dial(t, addr, b, Options{ServerName: "board-1"}).Version(context.Background()); err != nil {
		t.Errorf("Version from board-1 = %v; want no error", err)
	}
	_, err := dial(t, addr, b, Options{ServerName: "board-2"}).Version(context.Background())
	want := "get the version of " + addr + `: the node's certificate is not for the server name "board-2"; leave the server name out, or check that the address is the node's`
	if !errors.Is(err, ErrNodeName) || err.Error() != want {
		t.Errorf("Version from board-2 = %v; want %s", err, want)
	}
}

func TestParseEndpoint(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"https://node:50000", "node:50000"},
		{"https://node", "node:50000"},
		{"HTTPS://node/", "node:50000"},
		{"node", "node:50000"},
		{"node:1", "node:1"},
		{"10.0.0.5", "10.0.0.5:50000"},
		{"10.0.0.5:65535", "10.0.0.5:65535"},
		{"::1", "[::1]:50000"},
		{"[::1]", "[::1]:50000"},
		{"[::1]:7", "[::1]:7"},
		{"https://[::1]:7", "[::1]:7"},
		{"fe80::1%eth0", "[fe80::1%eth0]:50000"},
		{"[fe80::1%eth0]:7", "[fe80::1%eth0]:7"},
		{"https://[fe80::1%25eth0]:7", "[fe80::1%eth0]:7"},
	} {
		if got, err := parseEndpoint(tt.in); got != tt.want || err != nil {
			t.Errorf("parseEndpoint(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
	for _, tt := range []struct{ in, want string }{
		{"", "it is empty; give https://HOST:50000"},
		{"http://node", `the scheme is "http"; a node answers to https:// alone`},
		{"https://", "the host is missing; give https://HOST:50000"},
		{":50000", "the host is missing; give https://HOST:50000"},
		{"node:", `"" is no port; a port is a number from 1 to 65535`},
		{"node:0", `"0" is no port; a port is a number from 1 to 65535`},
		{"node:65536", `"65536" is no port; a port is a number from 1 to 65535`},
		{"https://node/v1", "there is more than a host and a port; give https://node"},
		{"https://me@node", "there is more than a host and a port; give https://node"},
		{"node?x", "there is more than a host and a port; give https://node"},
	} {
		if got, err := parseEndpoint(tt.in); err == nil || err.Error() != tt.want {
			t.Errorf("parseEndpoint(%q) = %q, %v; want error %s", tt.in, got, err, tt.want)
		}
	}
	for _, in := range []string{"node:http", "a b", "[::1", "fe80::1:x:50000", "1:2:3", "https://%zz", "node\x00"} {
		if got, err := parseEndpoint(in); err == nil {
			t.Errorf("parseEndpoint(%q) = %q; want an error", in, got)
		}
	}
	_, err := Dial("http://node", newLab(t).bundle(t, pki.RoleReader), Options{})
	const want = `use endpoint "http://node": the scheme is "http"; a node answers to https:// alone`
	if !errors.Is(err, ErrEndpoint) || err.Error() != want {
		t.Errorf("Dial = %v; want %s", err, want)
	}
}
