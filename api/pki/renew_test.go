package pki

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"testing"
	"time"
)

func TestRenewed(t *testing.T) {
	const day = 24 * time.Hour
	made := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name     string
		caAt, at time.Duration // of making the CA and the node's certificate
		now      time.Duration
		keyless  bool
		same     bool
		want     error
	}{
		{name: "in force", now: 100 * day, same: true},
		{name: "the clock was set back", at: 400 * day, now: 10 * day},
		{name: "the clock was set back, key elsewhere", at: 400 * day, now: 10 * day, keyless: true, want: ErrNoKey},
		{name: "before the CA", caAt: 400 * day, at: 400 * day, now: 0, want: ErrCATime},
		{name: "after the CA", now: 3700 * day, want: ErrCATime},
		{name: "ends with its CA", now: 3640 * day, same: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ca, err := NewCA("test", made.Add(c.caAt), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			n, err := ca.IssueNode([]string{"board-1"}, made.Add(c.at))
			if err != nil {
				t.Fatal(err)
			}
			if !c.keyless {
				n.CA = ca
			}
			now := made.Add(c.now)
			got, err := n.Renewed(now)
			if !errors.Is(err, c.want) {
				t.Fatalf("Renewed(%s) = %v; want %v", now, err, c.want)
			}
			if err != nil {
				return
			}
			if (got == n) != c.same {
				t.Errorf("Renewed(%s) gives the same certificate: %v; want %v", now, got == n, c.same)
			}
			dir := t.TempDir() + "/pki"
			if err := errors.Join(WriteNode(dir, n), ReplaceCert(dir, got)); err != nil {
				t.Fatal(err)
			}
			if loaded, err := LoadNode(dir); err != nil || !loaded.Cert.Equal(got.Cert) {
				t.Errorf("LoadNode after ReplaceCert = %v; want the new certificate", err)
			}
			_, err = got.Cert.Verify(x509.VerifyOptions{Roots: pool(ca.Cert), CurrentTime: now, DNSName: "board-1"})
			if err != nil || got.CA != n.CA {
				t.Errorf("the certificate is not good for board-1 at %s: %v", now, err)
			}
		})
	}
}
