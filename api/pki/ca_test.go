package pki

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestValidity(t *testing.T) {
	ca := newCA(t)
	b := newBundle(t, ca, RoleAdmin)
	for _, tt := range []struct {
		name string
		cert *x509.Certificate
		ttl  time.Duration
	}{
		{"CA", ca.Cert, 87600 * time.Hour},
		{"node", newNode(t, ca).Cert, 87600 * time.Hour},
		{"client", b.Cert, time.Hour},
	} {
		if want := made().Add(-24 * time.Hour); !tt.cert.NotBefore.Equal(want) {
			t.Errorf("%s: NotBefore = %v; want %v", tt.name, tt.cert.NotBefore, want)
		}
		if want := made().Add(tt.ttl); !tt.cert.NotAfter.Equal(want) {
			t.Errorf("%s: NotAfter = %v; want %v", tt.name, tt.cert.NotAfter, want)
		}
	}
}

// A board's clock stands at its floor until NTP answers: what was made today
// must be good at 23 hours before.
func TestClockBehind(t *testing.T) {
	ca := newCA(t)
	roots := pool(ca.Cert)
	for _, tt := range []struct {
		cert  *x509.Certificate
		usage x509.ExtKeyUsage
	}{
		{newNode(t, ca).Cert, x509.ExtKeyUsageServerAuth},
		{newBundle(t, ca, RoleReader).Cert, x509.ExtKeyUsageClientAuth},
	} {
		for _, clock := range []struct {
			offset time.Duration
			ok     bool
		}{{-23 * time.Hour, true}, {0, true}, {-25 * time.Hour, false}} {
			_, err := tt.cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at(clock.offset)(), KeyUsages: []x509.ExtKeyUsage{tt.usage}})
			if (err == nil) != clock.ok {
				t.Errorf("%s at %v: Verify = %v; want ok = %v", tt.cert.Subject, clock.offset, err, clock.ok)
			}
		}
	}
}

func TestNodeNames(t *testing.T) {
	n, err := newCA(t).IssueNode([]string{"board-1", NodeServerName, "board-1", "b.example"}, made())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{NodeServerName, "board-1", "b.example"}; !slices.Equal(n.Cert.DNSNames, want) {
		t.Errorf("DNS names = %v; want %v", n.Cert.DNSNames, want)
	}
	if len(n.Cert.IPAddresses) != 0 {
		t.Errorf("IP addresses = %v; want none", n.Cert.IPAddresses)
	}
}

func TestIssueErrors(t *testing.T) {
	ca := newCA(t)
	_, noName := ca.IssueClient("", []Role{RoleAdmin}, time.Hour, made())
	_, noRole := ca.IssueClient("a", nil, time.Hour, made())
	_, badRole := ca.IssueClient("a", []Role{"admin"}, time.Hour, made())
	_, emptyName := ca.IssueNode([]string{""}, made())
	_, ended := ca.IssueNode(nil, made().Add(longLife+time.Hour))
	broken := errors.New("no entropy")
	_, noRandom := NewCA("a", made(), iotest.ErrReader(broken))
	for _, tt := range []struct {
		err  error
		want string
	}{
		{noName, `issue a client certificate for "" with 1 roles and a lifetime of 1h0m0s: give a name, a role and a lifetime above 0`},
		{noRole, `issue a client certificate for "a" with 0 roles and a lifetime of 1h0m0s: give a name, a role and a lifetime above 0`},
		{badRole, `issue a client certificate for "a": "admin" is no role; use os:admin, os:operator or os:reader`},
		{emptyName, "issue a node certificate: one of the names is empty; leave it out"},
		{ended, `issue a certificate for "node.machined.internal": CA "test CA" ended on 2036-04-28; make a new CA`},
		{noRandom, `draw the serial number of "a": no entropy`},
	} {
		if tt.err == nil || tt.err.Error() != tt.want {
			t.Errorf("error = %v; want %s", tt.err, tt.want)
		}
	}
	if !errors.Is(noRandom, broken) {
		t.Errorf("error %v does not wrap the reader's", noRandom)
	}
}

// A client does not outlive its CA, however long a lifetime was asked for.
func TestClientEndsWithCA(t *testing.T) {
	ca := newCA(t)
	b, err := ca.IssueClient("a", []Role{RoleAdmin}, 2*longLife, made())
	if err != nil || !b.Cert.NotAfter.Equal(ca.Cert.NotAfter) {
		t.Errorf("IssueClient ends %v, %v; want %v", b.Cert.NotAfter, err, ca.Cert.NotAfter)
	}
}

func TestSerialNumbersDiffer(t *testing.T) {
	ca, err := NewCA("a", made(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a, b := newNode(t, ca).Cert, newNode(t, ca).Cert
	if a.SerialNumber.Cmp(b.SerialNumber) == 0 || a.SerialNumber.Sign() <= 0 || len(a.SerialNumber.Bytes()) > 20 {
		t.Errorf("serial numbers = %v, %v; want two positive ones of at most 20 bytes", a.SerialNumber, b.SerialNumber)
	}
}

func TestRoles(t *testing.T) {
	all := []Role{RoleReader, RoleOperator, RoleAdmin}
	for _, tt := range []struct {
		organizations []string
		allowed       []Role
	}{
		{nil, nil},
		{[]string{"example corp", "os:root", "OS:ADMIN"}, nil},
		{[]string{"os:reader"}, all[:1]},
		{[]string{"x", "os:operator", "os:operator"}, all[:2]},
		{[]string{"os:admin"}, all},
		{[]string{"os:reader", "os:admin"}, all},
	} {
		cert := &x509.Certificate{}
		cert.Subject.Organization = tt.organizations
		set := Roles(cert)
		for _, r := range all {
			if got, want := set.Allows(r), slices.Contains(tt.allowed, r); got != want {
				t.Errorf("roles of %q: Allows(%s) = %v; want %v", tt.organizations, r, got, want)
			}
		}
		if set.Allows("") || set.Allows("os:root") {
			t.Errorf("roles of %q allow what is no role", tt.organizations)
		}
	}
	if Roles(nil).Allows(RoleReader) {
		t.Error("no certificate allows reading")
	}
}

func TestFingerprint(t *testing.T) {
	ca := newCA(t)
	got := Fingerprint(ca.Cert)
	if len(got) != 64 || strings.Trim(got, "0123456789abcdef") != "" || got != Fingerprint(ca.Cert) || got == Fingerprint(newNode(t, ca).Cert) {
		t.Errorf("Fingerprint = %q; want 64 hex digits, the certificate's own", got)
	}
	if Fingerprint(&x509.Certificate{Raw: []byte("abc")}) != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Error("Fingerprint is not the SHA-256 of the DER")
	}
}

func TestRolesSurviveTheCertificate(t *testing.T) {
	b := newBundle(t, newCA(t), RoleOperator, RoleReader)
	if got := Roles(b.Cert); !got.Allows(RoleOperator) || got.Allows(RoleAdmin) || len(got) != 2 {
		t.Errorf("Roles = %v; want operator and reader", got)
	}
	if bytes.Contains(b.Cert.RawSubject, []byte("os:admin")) {
		t.Error("the subject has a role that was not asked for")
	}
}
