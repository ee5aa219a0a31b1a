package pkidir

import (
	"bytes"
	"crypto/x509"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"machined/api/pki"
)

const ttl = 24 * time.Hour

// noon is when the tests take place.
func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

func newPKI(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pki")
	if err := New(dir, "lab", ttl, noon()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// tree returns the files below dir with their modes.
func tree(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	modes := make(map[string]fs.FileMode)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		modes[filepath.ToSlash(rel)] = info.Mode()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return modes
}

func TestNew(t *testing.T) {
	dir := newPKI(t)
	if _, err := Node(dir, "node-1", false, noon()); err != nil {
		t.Fatal(err)
	}
	want := []string{".", "bundles", "bundles/admin", "bundles/operator", "bundles/reader", "ca", "nodes", "nodes/node-1"}
	for _, d := range []string{"bundles/admin/client", "bundles/operator/client", "bundles/reader/client", "nodes/node-1/node"} {
		want = append(want, d+".crt", d+".key", filepath.ToSlash(filepath.Dir(d))+"/ca.crt")
	}
	want = append(want, "ca/ca.crt", "ca/ca.key")
	slices.Sort(want)
	modes := tree(t, dir)
	if got := slices.Sorted(maps.Keys(modes)); !slices.Equal(got, want) {
		t.Errorf("New() made %q; want %q", got, want)
	}
	for path, mode := range modes {
		want := fs.FileMode(0o644)
		switch {
		case mode.IsDir():
			want = 0o700
		case filepath.Ext(path) == ".key":
			want = 0o600
		}
		if mode.Perm() != want {
			t.Errorf("%s has the mode %v; want %v", path, mode.Perm(), want)
		}
	}
}

// TestBundles has each bundle carry its one role, and trust the CA.
func TestBundles(t *testing.T) {
	dir := newPKI(t)
	ca, err := pki.LoadCA(filepath.Join(dir, CA))
	if err != nil {
		t.Fatal(err)
	}
	for name, role := range map[string]pki.Role{"admin": pki.RoleAdmin, "operator": pki.RoleOperator, "reader": pki.RoleReader} {
		b, err := pki.LoadBundle(filepath.Join(dir, Bundles, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Cert.Subject.Organization; !slices.Equal(got, []string{string(role)}) {
			t.Errorf("the bundle %s has the roles %q; want %q", name, got, role)
		}
		if !b.CACert.Equal(ca.Cert) || b.Cert.CheckSignatureFrom(ca.Cert) != nil {
			t.Errorf("the bundle %s is not from the CA", name)
		}
		if end := noon().Add(ttl); b.Cert.NotAfter.Before(end) || b.Cert.NotAfter.After(end.Add(time.Minute)) {
			t.Errorf("the bundle %s is valid until %v; want %v", name, b.Cert.NotAfter, end)
		}
	}
}

// TestNewRefuses does not write over a PKI, nor over the rest of one.
func TestNewRefuses(t *testing.T) {
	for _, sub := range []string{CA, Bundles, nodes} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, sub, "admin"), 0o700); err != nil {
			t.Fatal(err)
		}
		before := tree(t, dir)
		err := New(dir, "lab", ttl, noon())
		if err == nil || !strings.Contains(err.Error(), "holds "+sub+" already") {
			t.Errorf("New() = %v over %s; want a refusal", err, sub)
		}
		if after := tree(t, dir); !maps.Equal(after, before) {
			t.Errorf("New() changed %v into %v", before, after)
		}
	}
	dir := newPKI(t)
	before, err := os.ReadFile(filepath.Join(dir, CA, pki.CAKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := New(dir, "lab", ttl, noon()); err == nil {
		t.Error("New() = nil the second time; want a refusal")
	}
	if after, err := os.ReadFile(filepath.Join(dir, CA, pki.CAKeyFile)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the CA's key is not what it was: %v", err)
	}
}

// TestNewFailsWhole leaves nothing of a PKI that could not be completed.
func TestNewFailsWhole(t *testing.T) {
	dir := t.TempDir()
	if err := New(dir, "lab", -ttl, noon()); err == nil {
		t.Fatal("New() = nil with certificates that are never valid; want an error")
	}
	if left := tree(t, dir); len(left) != 1 {
		t.Errorf("New() left %v behind; want nothing", left)
	}
	if err := New(dir, "lab", ttl, noon()); err != nil {
		t.Errorf("New() = %v after a failure; want it to work", err)
	}
}

// TestNodeIsIssuedOnce gives a node the same identity each time its image is
// built, and each node its own.
func TestNodeIsIssuedOnce(t *testing.T) {
	dir := newPKI(t)
	node := func(name string, embedCA bool, at time.Time) map[string][]byte {
		files, err := Node(dir, name, embedCA, at)
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	same := func(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) }
	first := node("node-1", false, noon())
	if got, want := slices.Sorted(maps.Keys(first)), []string{"ca.crt", "node.crt", "node.key"}; !slices.Equal(got, want) {
		t.Errorf("Node() gives %q; want %q", got, want)
	}
	if !same(node("node-1", false, noon().Add(time.Hour)), first) {
		t.Error("Node(node-1) gives another identity the second time")
	}
	if same(node("node-2", false, noon()), first) {
		t.Error("Node(node-2) gives the identity of node-1")
	}
	withCA := node("node-1", true, noon())
	key, err := os.ReadFile(filepath.Join(dir, CA, pki.CAKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(withCA["ca.key"], key) || len(withCA) != 4 {
		t.Error("Node() with the CA embedded does not give its key")
	}
	if delete(withCA, "ca.key"); !same(withCA, first) {
		t.Error("Node() with the CA embedded gives another identity")
	}
	loaded, err := pki.LoadNode(filepath.Join(dir, nodes, "node-1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := loaded.Cert.VerifyHostname("node-1"); err != nil || loaded.Cert.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth {
		t.Errorf("the node's certificate is not one of a server node-1: %v", err)
	}
}

func TestNodeRefuses(t *testing.T) {
	dir := newPKI(t)
	for _, c := range []struct{ name, dir, hostname, says string }{
		{"no CA", t.TempDir(), "node-1", "machinectl pki new"},
		{"no name", dir, "", "no host name"},
		{"a way out", dir, "../node", "no host name"},
		{"the directory", dir, ".", "no host name"},
		{"its parent", dir, "..", "no host name"},
	} {
		if _, err := Node(c.dir, c.hostname, false, noon()); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: Node(%q) = %v; want %q", c.name, c.hostname, err, c.says)
		}
	}
	// The CA's key is kept elsewhere: a node that has its certificate is built.
	apart := newPKI(t)
	for range 2 {
		if _, err := Node(apart, "node-1", false, noon()); err != nil {
			t.Errorf("Node() = %v; want the certificate", err)
		}
		if err := os.Remove(filepath.Join(apart, CA, pki.CAKeyFile)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if _, err := Node(apart, "node-1", true, noon()); err == nil {
		t.Error("Node() = nil with the CA's key embedded and none there; want an error")
	}
	// Someone has made the CA anew and kept the nodes.
	if _, err := Node(dir, "node-1", false, noon()); err != nil {
		t.Fatal(err)
	}
	other := newPKI(t)
	if err := os.Rename(filepath.Join(dir, nodes), filepath.Join(other, nodes)); err != nil {
		t.Fatal(err)
	}
	if _, err := Node(other, "node-1", false, noon()); err == nil || !strings.Contains(err.Error(), "from another CA") {
		t.Errorf("Node() = %v with a certificate of another CA; want a refusal", err)
	}
}
