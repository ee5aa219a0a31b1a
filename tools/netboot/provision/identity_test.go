package provision

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"machined/api/pki"
	"machined/images/netboot"
	"machined/tools/netboot/registry"
)

func identities(t *testing.T, dir string) *Identities {
	t.Helper()
	ca, err := pki.NewCA("lab", time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &Identities{Dir: dir, CA: ca, Now: time.Now}
}

var one = registry.Board{ID: "52-54-00-00-00-01", MAC: "52:54:00:00:00:01"}

// TestIdentity makes an identity once, however often and by how many it is asked
// for, also by a server that comes later.
func TestIdentity(t *testing.T) {
	dir := t.TempDir()
	i := identities(t, dir)
	given := make([]netboot.Identity, 8)
	var wg sync.WaitGroup
	for n := range given {
		wg.Go(func() {
			var err error
			if given[n], err = i.Of(one, []byte(host("node-1"))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	later := &Identities{Dir: dir, CA: i.CA, Now: time.Now}
	again, err := later.Of(one, []byte(host("another")))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range append(given, again) {
		if g != given[0] || g.Key == "" {
			t.Fatal("the identity is another one; want the same each time")
		}
	}
	pair, err := tls.X509KeyPair([]byte(again.Cert), []byte(again.Key))
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{one.ID, "node-1"} {
		if err := leaf.VerifyHostname(name); err != nil {
			t.Errorf("the certificate is not for %s: %v", name, err)
		}
	}
	if leaf.VerifyHostname(netboot.ServerName) == nil {
		t.Error("the certificate is the server's too")
	}
	if info, err := os.Stat(filepath.Join(dir, identitiesDir, one.ID, pki.NodeKeyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key is %v, %v; want it for its owner alone", info, err)
	}
	other, err := i.Of(registry.Board{ID: "52-54-00-00-00-02"}, nil)
	if err != nil || other.Key == again.Key {
		t.Errorf("another board's identity is the same, or %v", err)
	}
}

// TestIdentityRefused: no name, the server's own name, and what is left of another
// CA or of a disk that was full.
func TestIdentityRefused(t *testing.T) {
	dir := t.TempDir()
	i := identities(t, dir)
	for want, ask := range map[string]func() error{
		"has no name":       func() error { _, err := i.Of(registry.Board{ID: "../"}, nil); return err },
		"netboot server's;": func() error { _, err := i.Of(one, []byte(host(netboot.ServerName))); return err },
	} {
		if err := ask(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Of() = %v; want %q", err, want)
		}
	}
	if made, _ := filepath.Glob(filepath.Join(dir, identitiesDir, "*")); len(made) > 0 {
		t.Errorf("%q were made; want nothing", made)
	}
	if _, err := i.Of(one, nil); err != nil {
		t.Fatal(err)
	}
	foreign := identities(t, dir)
	if _, err := foreign.Of(one, nil); err == nil || !strings.Contains(err.Error(), "of another CA") {
		t.Errorf("Of() = %v with the identity of another CA; want it refused", err)
	}
	if err := os.Remove(filepath.Join(dir, identitiesDir, one.ID, pki.NodeKeyFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Of(one, nil); err == nil || !strings.Contains(err.Error(), one.ID) {
		t.Errorf("Of() = %v with a part of an identity; want it refused, and the board named", err)
	}
}
