package client

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"machined/api"
	"machined/api/apitest"
	"machined/api/pki"
)

// wantError checks the cause and the whole sentence.
func wantError(t *testing.T, err error, cause Cause, want string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Cause != cause || !errors.Is(err, cause) || err.Error() != want {
		t.Errorf("error = %v\nwant %s (%s)", err, want, cause)
	}
}

func version(t *testing.T, addr string, b *pki.Bundle, o Options) error {
	t.Helper()
	_, err := dial(t, addr, b, o).Version(context.Background())
	return err
}

func TestRefusedByTheClient(t *testing.T) {
	l := newLab(t)
	foreign := apitest.NewCA(t, "other CA", made())
	namesake := apitest.NewCA(t, "lab CA", made())
	year := apitest.NewBundle(t, l.ca, made(), 5*365*day, pki.RoleReader)
	// The node's certificate ends 3 years before its CA's and the client's.
	old := apitest.NewNode(t, l.ca, made().Add(-8*365*day))
	young := apitest.NewNode(t, l.ca, made().Add(30*day))
	clientAsNode := &pki.Node{Identity: year.Identity, CACert: l.ca.Cert}
	for _, tt := range []struct {
		name  string
		node  *pki.Node
		now   time.Duration
		cause Cause
		want  string
	}{
		{"node of a foreign CA", apitest.NewNode(t, foreign, made()), 0, ErrForeignNode,
			`the node's certificate is of the CA "other CA" and not of the bundle's, "lab CA" (lab/ca.crt); use the bundle of this node, or check that the address is the node's`},
		{"node of a CA of the same name", apitest.NewNode(t, namesake, made()), 0, ErrForeignNode,
			`the node's certificate is of the CA "lab CA" and not of the bundle's, "lab CA" (lab/ca.crt); use the bundle of this node, or check that the address is the node's`},
		{"node expired", old, 3 * 365 * day, ErrNodeCertTime,
			"the node's certificate expired on 2028-04-30 12:00 UTC, and this computer's clock says 2029-04-30 12:00 UTC; set the clock, or give the node a new certificate"},
		{"node not valid yet", young, 0, ErrNodeCertTime,
			"the node's certificate is not valid before 2026-05-30 12:00 UTC, and this computer's clock says 2026-05-01 12:00 UTC; set the clock, or give the node a new certificate"},
		{"a client's certificate", clientAsNode, 0, ErrNodeName,
			`the node's certificate is not for the server name "node.machined.internal"; leave the server name out, or check that the address is the node's`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, addr := apitest.Serve(t, l.node, pki.NodeTLS(tt.node, at(tt.now)))
			err := version(t, addr, year, Options{Now: at(tt.now)})
			wantError(t, err, tt.cause, "get the version of "+addr+": "+tt.want)
		})
	}
}

func TestRefusedByTheNode(t *testing.T) {
	l := newLab(t)
	good := apitest.NewBundle(t, l.ca, made(), 10*day, pki.RoleReader)
	mix := func(name string) *pki.Bundle {
		b := apitest.NewBundle(t, apitest.NewCA(t, name, made()), made(), 10*day, pki.RoleReader)
		return &pki.Bundle{Identity: b.Identity, CACert: l.ca.Cert}
	}
	for _, tt := range []struct {
		name   string
		bundle *pki.Bundle
		clock  time.Duration // the node's
		cause  Cause
		want   string
	}{
		// crypto/tls sends no certificate of a CA that the node does not name.
		{"foreign CA", mix("other CA"), 0, ErrClientRefused, `the node does not know the CA "other CA" of the client certificate lab/client.crt; use the bundle of this node`},
		{"foreign CA of the same name", mix("lab CA"), 0, ErrClientRefused, `the node does not know the CA "lab CA" of the client certificate lab/client.crt; use the bundle of this node`},
		{"expired by the node's clock", good, 20 * day, ErrClientCertTime, "the node says that the client certificate lab/client.crt has expired or is not valid yet; it is valid from 2026-04-30 12:00 UTC to 2026-05-11 12:00 UTC, so that the node's clock or this computer's (2026-05-01 12:00 UTC) is wrong"},
		{"not valid yet by the node's clock", good, -30 * day, ErrClientCertTime, "the node says that the client certificate lab/client.crt has expired or is not valid yet; it is valid from 2026-04-30 12:00 UTC to 2026-05-11 12:00 UTC, so that the node's clock or this computer's (2026-05-01 12:00 UTC) is wrong"},
		{"a node's certificate", &pki.Bundle{Identity: l.pki.Identity, CACert: l.ca.Cert}, 0, ErrClientRefused, "the node refuses the client certificate lab/client.crt (tls: bad certificate); use the bundle of this node"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, addr := apitest.Serve(t, l.node, pki.NodeTLS(l.pki, at(tt.clock)))
			c := dial(t, addr, tt.bundle, Options{})
			// The second call meets a connection that gRPC makes again.
			for range 2 {
				_, err := c.Version(context.Background())
				wantError(t, err, tt.cause, "get the version of "+addr+": "+tt.want)
			}
		})
	}
}

// A refusal is never lost to the race between the node's alert and what the
// client writes: it writes only once the node has spoken.
func TestRefusalIsNeverLost(t *testing.T) {
	l := newLab(t)
	_, addr := l.serve(t)
	foreign := apitest.NewBundle(t, apitest.NewCA(t, "lab CA", made()), made(), day, pki.RoleReader)
	for range 100 {
		c := dial(t, addr, &pki.Bundle{Identity: foreign.Identity, CACert: l.ca.Cert}, Options{})
		if _, err := c.Version(context.Background()); !errors.Is(err, ErrClientRefused) {
			t.Fatalf("Version = %v; want %v", err, ErrClientRefused)
		}
		c.Close()
	}
}

func TestOwnCertificate(t *testing.T) {
	l := newLab(t)
	b := apitest.NewBundle(t, l.ca, made(), 10*day, pki.RoleReader)
	for _, tt := range []struct {
		now  time.Duration
		want string
	}{
		{20 * day, "connect to node:50000: the client certificate lab/client.crt expired on 2026-05-11 12:00 UTC, and this computer's clock says 2026-05-21 12:00 UTC; set the clock, or get a new bundle"},
		{-20 * day, "connect to node:50000: the client certificate lab/client.crt is not valid before 2026-04-30 12:00 UTC, and this computer's clock says 2026-04-11 12:00 UTC; set the clock, or get a new bundle"},
	} {
		_, err := Dial("node", b, Options{Now: at(tt.now), BundleDir: "lab"})
		wantError(t, err, ErrClientCertTime, tt.want)
	}
}

// listen accepts connections and hands them to serve; nil never accepts.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if serve != nil {
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { defer c.Close(); serve(c) }()
			}
		}()
	}
	return l.Addr().String()
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	return l.Addr().String()
}

func TestNotMachined(t *testing.T) {
	l := newLab(t)
	b := l.bundle(t, pki.RoleReader)
	secure := func(change func(*tls.Config)) func(net.Conn) {
		config := pki.NodeTLS(l.pki, at(0))
		change(config)
		return func(c net.Conn) {
			s := tls.Server(c, config)
			_, _ = s.Write([]byte("x"))
			_, _ = io.Copy(io.Discard, s)
		}
	}
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	for _, tt := range []struct{ name, addr, want string }{
		{"HTTP server", web.Listener.Addr().String(), "what answers there does not speak TLS, so it is no machined node; check the address and the port"},
		{"SSH server", listen(t, func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0-x\r\n")); _, _ = io.Copy(io.Discard, c) }),
			"what answers there does not speak TLS, so it is no machined node; check the address and the port"},
		{"hangs up", listen(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) }),
			"it took the connection and hung up before a TLS handshake, so it is no machined node, or one that is stopping; check the address and the port"},
		{"TLS 1.2 server", listen(t, secure(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 })),
			"what answers there does not speak TLS 1.3, so it is no machined node; check the address and the port"},
		{"TLS without HTTP/2", listen(t, secure(func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} })),
			"what answers there ends the TLS handshake (tls: no application protocol), so it is no machined node; check the address and the port"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantError(t, version(t, tt.addr, b, Options{}), ErrNotMachined, "get the version of "+tt.addr+": "+tt.want)
		})
	}
	t.Run("TLS without ALPN", func(t *testing.T) {
		addr := listen(t, secure(func(c *tls.Config) { c.NextProtos = nil }))
		if err := version(t, addr, b, Options{}); !errors.Is(err, ErrNotMachined) || !strings.Contains(err.Error(), "ALPN") {
			t.Errorf("error = %v; want %v about ALPN", err, ErrNotMachined)
		}
	})
	t.Run("hangs up after the handshake", func(t *testing.T) {
		addr := listen(t, func(c net.Conn) { _ = tls.Server(c, pki.NodeTLS(l.pki, at(0))).Handshake() })
		wantError(t, version(t, addr, b, Options{}), ErrClientRefused, "get the version of "+addr+
			": the node hung up after it had seen the client certificate lab/client.crt; it may be stopping, or refuse the certificate: its console says")
	})
}

func TestUnreachable(t *testing.T) {
	b := newLab(t).bundle(t, pki.RoleReader)
	addr := closedPort(t)
	wantError(t, version(t, addr, b, Options{}), ErrUnreachable, "get the version of "+addr+
		": connection refused; the host is up, but no API is there: check the address and the port, or wait for the node to boot")
	// A label of more than 63 bytes cannot exist; no name server is asked.
	long := strings.Repeat("a", 64)
	wantError(t, version(t, long, b, Options{}), ErrUnknownHost, "get the version of "+long+
		":50000: there is no host "+long+"; check the name, or give the node's IP address")
	failed := &net.DNSError{Err: "server misbehaving", Name: "node", IsTemporary: true}
	if e := explainLookup(failed, failed); e.Cause != ErrUnknownHost || !strings.HasPrefix(e.Message, "looking up the host node failed (server misbehaving); ") {
		t.Errorf("explainLookup(%v) = %v, %s", failed, e.Cause, e.Message)
	}
}

func TestTimeout(t *testing.T) {
	l := newLab(t)
	release := make(chan struct{})
	l.node.OnList = func() { <-release }
	_, slow := l.serve(t)
	t.Cleanup(func() { close(release) })
	b := l.bundle(t, pki.RoleReader)
	const limit = 300 * time.Millisecond
	for _, tt := range []struct{ name, addr, want string }{
		{"nobody accepts", listen(t, nil), "something takes the connection and says nothing within 300ms; it is no machined node, or one whose connections are all taken"},
		{"no TLS", listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }), "something takes the connection and says nothing within 300ms; it is no machined node, or one whose connections are all taken"},
		{"silent after the handshake", listen(t, func(c net.Conn) {
			_ = tls.Server(c, pki.NodeTLS(l.pki, at(0))).Handshake()
			_, _ = io.Copy(io.Discard, c)
		}), "something takes the connection and says nothing within 300ms; it is no machined node, or one whose connections are all taken"},
		{"slow call", slow, "the node is connected and did not answer the call within 300ms; try again with a longer time-out"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := dial(t, tt.addr, b, Options{Timeout: limit})
			start := time.Now()
			_, err := c.List(context.Background(), "LinkStatus", "")
			wantError(t, err, ErrTimeout, "list LinkStatus of "+tt.addr+": "+tt.want)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v does not match context.DeadlineExceeded", err)
			}
			// The connection that timed out says no more than the call.
			_, again := c.List(context.Background(), "LinkStatus", "")
			if !errors.Is(again, ErrTimeout) {
				t.Errorf("the second call = %v; want %v", again, ErrTimeout)
			}
			if took := time.Since(start) / 2; took < limit/3 || took > 10*limit {
				t.Errorf("it took %v; want about %v", took, limit)
			}
		})
	}
	if e := explainTimeout(dialing, context.DeadlineExceeded, limit); e.Message != "no answer within 300ms; check the address, that the node is on, and that no firewall is between" {
		t.Errorf("explainTimeout(dialing) = %s", e.Message)
	}
}

func TestCanceled(t *testing.T) {
	b := newLab(t).bundle(t, pki.RoleReader)
	addr := listen(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, cancel)
	err := dial(t, addr, b, Options{}).Reboot(ctx)
	wantError(t, err, ErrCanceled, "reboot "+addr+": interrupted before the node answered")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not match context.Canceled", err)
	}
}

func TestConnectionLost(t *testing.T) {
	l := newLab(t)
	listing, release := make(chan struct{}), make(chan struct{})
	l.node.OnList = func() { close(listing); <-release }
	s, addr := l.serve(t)
	go func() { <-listing; s.Stop(0) }()
	_, err := dial(t, addr, l.bundle(t, pki.RoleReader), Options{}).List(context.Background(), "LinkStatus", "")
	close(release)
	if !errors.Is(err, ErrLost) || !strings.HasSuffix(err.Error(), "; the node may be restarting, try again") {
		t.Errorf("List = %v; want %v", err, ErrLost)
	}
}

func TestAnswers(t *testing.T) {
	l := newLab(t)
	_, addr := l.serve(t)
	reader := dial(t, addr, l.bundle(t, pki.RoleReader), Options{})
	nobody := dial(t, addr, &pki.Bundle{Identity: noRole(t, l), CACert: l.ca.Cert}, Options{})
	admin := dial(t, addr, l.bundle(t, pki.RoleAdmin), Options{})
	ctx := context.Background()

	err := reader.Reboot(ctx)
	wantError(t, err, ErrPermission, "reboot "+addr+": laptop may not call /machine.MachineService/Reboot: it needs the role os:operator and the certificate carries [os:reader]; use a bundle with that role")
	if len(l.node.Asked()) != 0 {
		t.Errorf("a reader got the node to %q", l.node.Asked())
	}
	if _, err := nobody.Version(ctx); !errors.Is(err, ErrPermission) {
		t.Errorf("Version without a role = %v; want %v", err, ErrPermission)
	}
	_, err = reader.List(ctx, "Disk\x1bStatus", "")
	if !errors.Is(err, ErrUnknownKind) || !strings.HasPrefix(err.Error(), "list Disk?Status of "+addr+`: unknown kind "Disk\x1bStatus"; known are LinkSpec, `) {
		t.Errorf("List of an unknown kind = %v; want %v", err, ErrUnknownKind)
	}
	_, err = reader.List(ctx, "LinkStatus", "block")
	wantError(t, err, ErrNamespace, "list LinkStatus of "+addr+`: LinkStatus is in namespace "network", not "block"`)
	l.node.EndError = api.ErrBusy
	wantError(t, admin.Shutdown(ctx), ErrBusy, "shut down "+addr+": another sequence is running; wait for that to end")
	l.node.EndError = errors.New("no\nwatchdog")
	wantError(t, admin.Shutdown(ctx), ErrNode, "shut down "+addr+": the node answers Internal: no watchdog")
}

// noRole returns an identity of the lab without any role, which pki.IssueClient
// does not make.
func noRole(t *testing.T, l *lab) pki.Identity {
	t.Helper()
	return apitest.Sign(t, l.ca, made(), 10*day, "visitors")
}

// A node without the call is older than this program.
func TestUnimplemented(t *testing.T) {
	l := newLab(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(pki.NodeTLS(l.pki, at(0)))))
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(s.Stop)
	addr := listener.Addr().String()
	err = version(t, addr, l.bundle(t, pki.RoleReader), Options{})
	wantError(t, err, ErrUnimplemented, "get the version of "+addr+": the node does not know this call (unknown service machine.MachineService); it is older than this program, upgrade it")
}
