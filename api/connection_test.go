package api_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"machined/api/apitest"
	"machined/api/machinepb"
	"machined/api/pki"
)

// firstByte connects and waits for the server's first byte, which it sends only
// to those that it lets in.
func firstByte(t *testing.T, addr string, config *tls.Config) error {
	t.Helper()
	raw, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	_ = raw.SetDeadline(time.Now().Add(10 * time.Second))
	_, err = io.ReadFull(tls.Client(raw, config), make([]byte, 1))
	return err
}

func TestConnectionsRefused(t *testing.T) {
	l := newLab(t)
	good := l.bundle(t, "os:admin")
	foreign := apitest.NewCA(t, "lab CA", made())
	change := func(f func(*tls.Config)) *tls.Config {
		c := clientTLS(good)
		f(c)
		return c
	}
	identity := func(id pki.Identity) *tls.Config { return clientTLS(&pki.Bundle{Identity: id, CACert: l.ca.Cert}) }
	for _, tt := range []struct {
		name   string
		config *tls.Config
		want   string // "" if it is let in
	}{
		{"good", clientTLS(good), ""},
		{"no certificate", change(func(c *tls.Config) { c.Certificates = nil }), "certificate required"},
		{"foreign CA", identity(apitest.Sign(t, foreign, made(), time.Hour, "os:admin")), "unknown certificate authority"},
		{"expired", identity(apitest.Sign(t, l.ca, made().Add(-48*time.Hour), 24*time.Hour, "os:admin")), "expired certificate"},
		{"not valid yet", identity(apitest.Sign(t, l.ca, made().Add(48*time.Hour), 24*time.Hour, "os:admin")), "expired certificate"},
		{"a node's certificate", identity(apitest.NewNode(t, l.ca, made()).Identity), "bad certificate"},
		{"TLS 1.2", change(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }), "protocol version not supported"},
		{"without HTTP/2", change(func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }), "EOF"},
	} {
		err := firstByte(t, l.addr, tt.config)
		if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.want)
		}
	}
	// What is not TLS gets nothing, an alert at most.
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "SSH-2.0-x\r\n", "\x00\x00\x00\x00\x00\x00"} {
		if got := plain(t, l.addr, text); strings.Contains(got, "HTTP") || len(got) > 7 {
			t.Errorf("%q in plain text is answered %q", text, got)
		}
	}
	if got := invoke(t, l.dial(t, good), service+"Version"); got != codes.OK {
		t.Errorf("Version after all that = %v; want OK", got)
	}
}

func plain(t *testing.T, addr, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("%q in plain text: the server keeps the connection; want it to hang up", text)
	}
	return string(b)
}

// open makes a connection that the server has let in.
func open(t *testing.T, l *lab, b *pki.Bundle) net.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", l.addr, clientTLS(b))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatalf("the server does not let a connection in: %v", err)
	}
	return c
}

// The 65th connection waits until one of the 64 ends.
func TestConnectionLimit(t *testing.T) {
	l := newLab(t)
	b := l.bundle(t, "os:reader")
	var conns []net.Conn
	for range 64 {
		conns = append(conns, open(t, l, b))
	}
	next := make(chan error, 1)
	go func() { next <- firstByte(t, l.addr, clientTLS(b)) }()
	select {
	case err := <-next:
		t.Fatalf("the 65th connection = %v while 64 are open; want it to wait", err)
	case <-time.After(300 * time.Millisecond):
	}
	conns[0].Close()
	if err := <-next; err != nil {
		t.Errorf("the 65th connection, when one of 64 has ended: %v; want it let in", err)
	}
}

// A client that says nothing does not hold up the node's end.
func TestStopDoesNotWaitForHandshakes(t *testing.T) {
	l := newLab(t)
	for range 2 {
		c, err := net.Dial("tcp", l.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	// The server has accepted both when it has let a later one in.
	open(t, l, l.bundle(t, "os:reader"))
	stopped(t, l, 200*time.Millisecond, 2*time.Second)
}

// A call that does not end is cut when the grace is over.
func TestStopCutsCalls(t *testing.T) {
	l := newLab(t)
	begun, release := make(chan struct{}), make(chan struct{})
	l.node.OnList = func() { close(begun); <-release }
	defer close(release)
	done := make(chan error, 1)
	client := machinepb.NewMachineServiceClient(l.dial(t, l.bundle(t, "os:reader")))
	go func() {
		_, err := client.ListResources(limited(t), &machinepb.ListResourcesRequest{Type: "LinkStatus"})
		done <- err
	}()
	<-begun
	stopped(t, l, 200*time.Millisecond, 2*time.Second)
	if err := <-done; err == nil {
		t.Error("the call that was cut succeeded")
	}
}

func stopped(t *testing.T, l *lab, grace, most time.Duration) {
	t.Helper()
	start := time.Now()
	done := make(chan struct{})
	go func() { l.server.Stop(grace); close(done) }()
	select {
	case <-done:
		t.Logf("Stop(%v) took %v", grace, time.Since(start))
	case <-time.After(most):
		t.Fatalf("Stop(%v) takes more than %v", grace, most)
	}
}

// A connection does not outlive the certificate that opened it.
func TestCertificateExpiresDuringConnection(t *testing.T) {
	ca := apitest.NewCA(t, "lab CA", made())
	var clock atomic.Int64
	now := func() time.Time { return made().Add(time.Duration(clock.Load())) }
	l := &lab{ca: ca, node: &apitest.Node{}}
	l.server, l.addr = apitest.Serve(t, l.node, pki.NodeTLS(apitest.NewNode(t, ca, made()), now))
	client := machinepb.NewMachineServiceClient(l.dial(t, l.bundle(t, "os:reader")))
	if _, err := client.Version(limited(t), &machinepb.Empty{}); err != nil {
		t.Fatalf("Version = %v; want no error", err)
	}
	clock.Store(int64(25 * time.Hour))
	_, err := client.Version(limited(t), &machinepb.Empty{})
	const want = "the client certificate of laptop expired on 2026-05-02"
	if st := status.Convert(err); st.Code() != codes.Unauthenticated || st.Message() != want {
		t.Errorf("Version after the certificate's end = %v; want Unauthenticated, %s", err, want)
	}
}

// Nothing is left running after Stop, whatever clients did before.
func TestStopLeavesNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("node", func(t *testing.T) {
		l := newLab(t)
		b := l.bundle(t, "os:admin")
		for range 5 {
			conn := l.dial(t, b)
			for _, name := range methods() {
				invoke(t, conn, name)
			}
			invoke(t, conn, "/grpc.health.v1.Health/Watch")
			open(t, l, b)
			_ = firstByte(t, l.addr, &tls.Config{InsecureSkipVerify: true})
			if c, err := net.Dial("tcp", l.addr); err == nil {
				t.Cleanup(func() { c.Close() })
			}
		}
		l.server.Stop(100 * time.Millisecond)
	})
	var after int
	for range 100 {
		if after = runtime.NumGoroutine(); after <= before {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%d goroutines after Stop; want %d\n%s", after, before, stacks())
}

func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}
