package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// handshake runs both sides over a pipe. The client reads a byte, because in TLS
// 1.3 it is done before the server has judged its certificate.
func handshake(t *testing.T, server, client *tls.Config) (serverErr, clientErr error) {
	t.Helper()
	a, b := net.Pipe()
	deadline := time.Now().Add(10 * time.Second)
	_ = a.SetDeadline(deadline)
	_ = b.SetDeadline(deadline)
	done := make(chan error, 1)
	go func() {
		defer a.Close()
		s := tls.Server(a, server)
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte{1})
		}
		done <- err
	}()
	c := tls.Client(b, client)
	_, clientErr = io.ReadFull(c, make([]byte, 1))
	b.Close()
	return <-done, clientErr
}

func TestHandshake(t *testing.T) {
	ca, foreign := newCA(t), newCA(t)
	node, bundle := newNode(t, ca), newBundle(t, ca, RoleAdmin)
	now := at(0)
	posing, err := ca.issue(&x509.Certificate{
		DNSNames: []string{NodeServerName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, made(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	server := func(n *Node, clock func() time.Time) *tls.Config { return NodeTLS(n, clock) }
	client := func(b *Bundle, change func(*tls.Config)) *tls.Config {
		c := ClientTLS(b, "")
		c.Time = now
		if change != nil {
			change(c)
		}
		return c
	}
	for _, tt := range []struct {
		name           string
		server, client *tls.Config
		// What the side that refuses says; "" if none refuses.
		serverSays, clientSays string
	}{
		{"good", server(node, now), client(bundle, nil), "", ""},
		{"node's other name", server(node, now), client(bundle, func(c *tls.Config) { c.ServerName = "board-1" }), "", ""},
		{"board's clock 23 h behind", server(node, at(-23*time.Hour)), client(bundle, nil), "", ""},
		{"both clocks 23 h behind", server(node, at(-23*time.Hour)), client(bundle, func(c *tls.Config) { c.Time = at(-23 * time.Hour) }), "", ""},
		{"board's clock far behind", server(node, at(-25*time.Hour)), client(bundle, nil), "certificate has expired or is not yet valid", ""},
		{"client expired", server(node, at(2*time.Hour)), client(bundle, nil), "certificate has expired or is not yet valid", ""},
		{"no client certificate", server(node, now), client(bundle, func(c *tls.Config) { c.Certificates = nil }), "client didn't provide a certificate", ""},
		{"client of a foreign CA", server(node, now), client(newBundle(t, foreign, RoleAdmin), func(c *tls.Config) { c.RootCAs = pool(ca.Cert) }), "unknown authority", ""},
		{"node of a foreign CA", server(newNode(t, foreign), now), client(bundle, nil), "", "unknown authority"},
		{"TLS 1.2", server(node, now), client(bundle, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }), "unsupported versions", ""},
		{"node's certificate as a client", server(node, now), client(&Bundle{Identity: node.Identity, CACert: ca.Cert}, nil), "incompatible key usage", ""},
		{"client's certificate as a node", server(&Node{Identity: bundle.Identity, CACert: ca.Cert}, now), client(bundle, nil), "", "not valid for any names"},
		{"client's certificate with the node's name", server(&Node{Identity: posing, CACert: ca.Cert}, now), client(bundle, nil), "", "incompatible key usage"},
		{"other server name", server(node, now), client(bundle, func(c *tls.Config) { c.ServerName = "other" }), "", "not other"},
		{"address as server name", server(node, now), client(bundle, func(c *tls.Config) { c.ServerName = "10.0.0.1" }), "", "IP SANs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			serverErr, clientErr := handshake(t, tt.server, tt.client)
			check := func(side string, err error, want string) {
				if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("%s: %v; want ...%s...", side, err, want)
				}
			}
			check("server", serverErr, tt.serverSays)
			check("client", clientErr, tt.clientSays)
			if tt.serverSays == "" && tt.clientSays == "" && (serverErr != nil || clientErr != nil) {
				t.Errorf("handshake = %v, %v; want success", serverErr, clientErr)
			}
			if (tt.serverSays != "" || tt.clientSays != "") && clientErr == nil {
				t.Error("the client got data from a refused connection")
			}
		})
	}
}

// The clock is asked at each handshake, not once: NTP steps it while the server
// runs.
func TestClockIsAskedEachTime(t *testing.T) {
	ca := newCA(t)
	now := made().Add(-48 * time.Hour)
	server := NodeTLS(newNode(t, ca), func() time.Time { return now })
	client := ClientTLS(newBundle(t, ca, RoleReader), NodeServerName)
	client.Time = at(0)
	if err, _ := handshake(t, server, client); err == nil {
		t.Error("handshake with the clock two days behind succeeded; want a refusal")
	}
	now = made()
	if err, clientErr := handshake(t, server, client); err != nil || clientErr != nil {
		t.Errorf("handshake after the step = %v, %v; want success", err, clientErr)
	}
}

func TestPlainTextRefused(t *testing.T) {
	a, b := net.Pipe()
	_ = a.SetDeadline(time.Now().Add(10 * time.Second))
	go func() {
		_, _ = b.Write([]byte("GET / HTTP/1.1\r\nHost: node\r\n\r\n"))
		_, _ = io.Copy(io.Discard, b)
	}()
	err := tls.Server(a, NodeTLS(newNode(t, newCA(t)), at(0))).Handshake()
	a.Close()
	b.Close()
	var header tls.RecordHeaderError
	if !errors.As(err, &header) {
		t.Errorf("Handshake with plain text = %v; want a RecordHeaderError", err)
	}
}

// A resumed session would skip the check of the certificate.
func TestNoResumption(t *testing.T) {
	ca := newCA(t)
	server := NodeTLS(newNode(t, ca), at(0))
	client := ClientTLS(newBundle(t, ca, RoleReader), "")
	client.Time = at(0)
	client.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	resumed := false
	client.VerifyConnection = func(s tls.ConnectionState) error {
		resumed = resumed || s.DidResume
		return nil
	}
	for range 2 {
		if err, clientErr := handshake(t, server, client); err != nil || clientErr != nil {
			t.Fatalf("handshake = %v, %v", err, clientErr)
		}
	}
	if resumed {
		t.Error("the second handshake resumed the first; want a full one")
	}
}

// The server hands the handler the certificate that the roles are in.
func TestRolesOfThePeer(t *testing.T) {
	ca := newCA(t)
	var got RoleSet
	server := NodeTLS(newNode(t, ca), at(0))
	server.VerifyConnection = func(s tls.ConnectionState) error {
		got = Roles(peer(s))
		return nil
	}
	client := ClientTLS(newBundle(t, ca, RoleOperator), "")
	client.Time = at(0)
	if err, clientErr := handshake(t, server, client); err != nil || clientErr != nil {
		t.Fatalf("handshake = %v, %v", err, clientErr)
	}
	if !got.Allows(RoleOperator) || got.Allows(RoleAdmin) {
		t.Errorf("roles of the peer = %v; want operator", got)
	}
}

func peer(s tls.ConnectionState) *x509.Certificate { return s.PeerCertificates[0] }
