// Package apitest serves the API of a node that is not there, with real
// certificates over loopback, for the tests of its clients.
package apitest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"machined/api"
	"machined/api/machinepb"
	"machined/api/pki"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// Node is an api.Node that notes what it is asked. Set its fields before it
// serves.
type Node struct {
	Info      api.Version
	Resources map[resource.Kind][]resource.Resource
	// Store, if set, takes the place of Resources. Whoever changes it calls
	// Kick.
	Store *reconcile.Store
	// OnList runs when resources are asked for, to block or to panic; nil does
	// nothing.
	OnList func()
	// EndError is what Reboot, Shutdown, ResetRuntime and the methods about
	// upgrades and the config return.
	EndError error
	// OnAsked runs after each of them, while nothing else does; nil does nothing.
	OnAsked func()
	// Applied is what ApplyConfig says of a config.
	Applied api.Applied
	// Infos are the services. OnControl, if set, is what Control waits for.
	Infos     []*machinepb.ServiceInfo
	OnControl func(ctx context.Context, id string, action api.Action) error
	// LogOf has the logs by service.
	LogOf map[string]api.Log

	mu    sync.Mutex
	asked []string
	used  []string
	moved chan struct{}
}

// Version implements api.Node.
func (n *Node) Version() api.Version {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.Info
}

// Watch implements api.Node.
func (n *Node) Watch(kind resource.Kind, from uint64, out []reconcile.Change) ([]reconcile.Change, uint64) {
	if n.OnList != nil {
		n.OnList()
	}
	switch {
	case n.Store != nil:
		return n.Store.Watch(kind, from, out)
	case from == 1:
		return out, 1
	}
	for _, r := range n.Resources[kind] {
		out = append(out, reconcile.Change{Op: reconcile.Current, Seq: 1, Key: r.Key(), Resource: r})
	}
	return append(out, reconcile.Change{Op: reconcile.Synced, Seq: 1}), 1
}

// Epoch implements api.Node.
func (n *Node) Epoch() string { return "epoch-" + n.Info.BootID }

// Moved implements api.Node.
func (n *Node) Moved() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.moved == nil {
		n.moved = make(chan struct{})
	}
	return n.moved
}

// Kick tells the watches that the store has moved.
func (n *Node) Kick() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.moved != nil {
		close(n.moved)
		n.moved = nil
	}
}

// Reboot implements api.Node.
func (n *Node) Reboot(by string) error { return n.end("reboot by " + by) }

// Shutdown implements api.Node.
func (n *Node) Shutdown(by string) error { return n.end("shutdown by " + by) }

func (n *Node) end(what string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, what)
	if n.OnAsked != nil {
		n.OnAsked()
	}
	return n.EndError
}

// ResetRuntime implements api.Node.
func (n *Node) ResetRuntime(by string) error { return n.end("runtime reset by " + by) }

// Upgrade implements api.Node.
func (n *Node) Upgrade(by, url, sha256 string, o api.UpgradeOptions) error {
	return n.end(fmt.Sprintf("upgrade %s %s %+v by %s", url, sha256, o, by))
}

// Push implements api.Node. It reads everything.
func (n *Node) Push(_ context.Context, by string, r io.Reader, o api.UpgradeOptions) (string, string, error) {
	size, err := io.Copy(io.Discard, r)
	if err != nil {
		return "", "", err
	}
	return "v2", "B", n.end(fmt.Sprintf("push of %d bytes %+v by %s", size, o, by))
}

// TryStaged implements api.Node.
func (n *Node) TryStaged(by string, kexec bool) error {
	return n.end(fmt.Sprintf("try of what is staged by %s, kexec %v", by, kexec))
}

// CommitUpgrade implements api.Node.
func (n *Node) CommitUpgrade(by string) error { return n.end("commit by " + by) }

// Rollback implements api.Node.
func (n *Node) Rollback(by string) error { return n.end("rollback by " + by) }

// Install implements api.Node.
func (n *Node) Install(by, disk string, wipe, noReboot bool) error {
	return n.end(fmt.Sprintf("installation on %s, wipe %v, no reboot %v, by %s", disk, wipe, noReboot, by))
}

// ApplyConfig implements api.Node.
func (n *Node) ApplyConfig(by string, config []byte, dryRun bool) (api.Applied, error) {
	return n.Applied, n.end(fmt.Sprintf("config of %d bytes, dry run %v, by %s", len(config), dryRun, by))
}

// Reset implements api.Node.
func (n *Node) Reset(by string, keepIdentity bool) error {
	return n.end(fmt.Sprintf("reset, identity kept %v, by %s", keepIdentity, by))
}

// Services implements api.Node.
func (n *Node) Services() []*machinepb.ServiceInfo { return n.Infos }

// Control implements api.Node.
func (n *Node) Control(ctx context.Context, id string, action api.Action) (*machinepb.ServiceInfo, error) {
	i := slices.IndexFunc(n.Infos, func(s *machinepb.ServiceInfo) bool { return s.GetId() == id })
	if i < 0 {
		return nil, api.ErrUnknownService
	}
	if n.OnControl == nil {
		return n.Infos[i], nil
	}
	return n.Infos[i], n.OnControl(ctx, id, action)
}

// Logs implements api.Node.
func (n *Node) Logs(service string) (api.Log, error) {
	if l := n.LogOf[service]; l != nil {
		return l, nil
	}
	return nil, api.ErrUnknownService
}

// Used implements api.Node.
func (n *Node) Used(fingerprint string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.used = append(n.used, fingerprint)
}

// Asked returns the calls of Reboot and Shutdown so far, such as "reboot by
// laptop".
func (n *Node) Asked() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.asked)
}

// UsedBy returns the fingerprints that Used was called with.
func (n *Node) UsedBy() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.used)
}

// NewCA returns an authority that was made at now.
func NewCA(t testing.TB, name string, now time.Time) *pki.CA {
	t.Helper()
	ca, err := pki.NewCA(name, now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// NewNode returns the identity of a node, issued at now.
func NewNode(t testing.TB, ca *pki.CA, now time.Time) *pki.Node {
	t.Helper()
	n, err := ca.IssueNode([]string{"board-1"}, now)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// NewBundle returns the bundle of a client named "laptop", issued at now for
// ttl.
func NewBundle(t testing.TB, ca *pki.CA, now time.Time, ttl time.Duration, roles ...pki.Role) *pki.Bundle {
	t.Helper()
	b, err := ca.IssueClient("laptop", roles, ttl, now)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Serve serves the node on a loopback port until the test ends, and returns the
// server and its address.
func Serve(t testing.TB, node api.Node, config *tls.Config) (*api.Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := api.NewServer(node, config, func(text string) { t.Log("the node warns:", text) })
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop(time.Second)
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("Serve = %v; want no error", err)
		}
	})
	return s, l.Addr().String()
}

// Sign returns the identity of a client with the given organizations, roles or
// not, which pki.CA does not issue.
func Sign(t testing.TB, ca *pki.CA, now time.Time, ttl time.Duration, organizations ...string) pki.Identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: "laptop", Organization: organizations},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(ttl),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Cert, &key.PublicKey, ca.Key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return pki.Identity{Cert: cert, Key: key}
}
