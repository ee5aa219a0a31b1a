package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"machined/api"
	"machined/api/apitest"
	"machined/api/pki"
	"machined/hal"
	"machined/reconcile/resource"
)

// lab is a node that serves on loopback, and the bundles that open it.
type lab struct {
	ca   *pki.CA
	node *apitest.Node
	addr string
	dir  string // with bundles admin, operator, reader
}

func newLab(t *testing.T) *lab {
	t.Helper()
	now := time.Now()
	l := &lab{ca: apitest.NewCA(t, "lab CA", now), dir: t.TempDir(), node: &apitest.Node{
		Info: api.Version{Version: "v1.2.3", ImageID: strings.Repeat("0123456789abcdef", 4), Board: "pi3aplus", Slot: "A", BootID: "5d7c", Kernel: "6.12.1-v8"},
		Resources: map[resource.Kind][]resource.Resource{
			resource.LinkStatusKind: {
				resource.LinkStatus{Name: "eth0", Index: 2, Up: true, MTU: 1500, MAC: [6]byte{2, 0, 0, 0, 0, 1}},
				resource.LinkStatus{Name: "lo", Index: 1, Up: true, MTU: 65536},
			},
			resource.RouteStatusKind: {resource.RouteStatus{
				Link: "eth0", Destination: hal.Prefix{Address: hal.Address{Bytes: [16]byte{10}, Len: 4}, Bits: 24},
			}},
			resource.MachineConfigKind: {resource.MachineConfig{
				Source: "boot partition", Bytes: "machine:\n  hostname: \"lab\"\n  note: <a & b>\n",
			}},
			resource.ServiceStatusKind: {resource.ServiceStatus{
				ServiceID: "true", State: "Failed", Message: "exit \"1\"\x1b[31m\té\\",
			}},
		},
	}}
	_, l.addr = apitest.Serve(t, l.node, pki.NodeTLS(apitest.NewNode(t, l.ca, now), time.Now))
	for _, r := range []pki.Role{pki.RoleAdmin, pki.RoleOperator, pki.RoleReader} {
		l.write(t, strings.TrimPrefix(string(r), "os:"), apitest.NewBundle(t, l.ca, now, time.Hour, r))
	}
	t.Setenv(configVariable, filepath.Join(l.dir, "config", "config.yaml"))
	t.Setenv(bundleVariable, "")
	t.Setenv(endpointVariable, "")
	return l
}

func (l *lab) write(t *testing.T, name string, b *pki.Bundle) string {
	t.Helper()
	dir := filepath.Join(l.dir, name)
	if err := pki.WriteBundle(dir, b); err != nil {
		t.Fatal(err)
	}
	return dir
}

// as returns the flags for the node and one of the bundles, and then args.
func (l *lab) as(bundle string, args ...string) []string {
	return append([]string{"--bundle", filepath.Join(l.dir, bundle), "--endpoint", "https://" + l.addr}, args...)
}

// result is what a run of machinectl gave; paths and addresses of the test are
// replaced by $DIR and $ADDR.
type result struct {
	stdout, stderr string
	code           int
}

func (l *lab) run(args ...string) result {
	var stdout, stderr bytes.Buffer
	code := run(args, &stdout, &stderr)
	fixed := strings.NewReplacer(l.dir, "$DIR", l.addr, "$ADDR")
	return result{fixed.Replace(stdout.String()), fixed.Replace(stderr.String()), code}
}

// golden compares a text with a file of testdata; UPDATE_GOLDEN=1 writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
	}
}
