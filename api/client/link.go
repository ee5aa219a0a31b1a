package client

import (
	"context"
	"io"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
)

// stage is how far a connection has come.
type stage int

const (
	dialing     stage = iota // looking up the name, connecting
	handshaking              // TLS: the node's certificate
	admitting                // the node's word on the client's certificate
	connected
)

// link makes the connections of a client and remembers what became of the last
// one: gRPC flattens the errors of a connection to text.
type link struct {
	address string

	mu    sync.Mutex
	stage stage // of the connection being made, or made
	// The error that the last failed connection ended with, and where. A
	// connection that comes about clears them, and not one that is only begun:
	// gRPC tries again behind the back of calls that fail with the old error.
	failedAt stage
	err      error
}

func (l *link) enter(s stage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stage = s
	if s == connected {
		l.err = nil
	}
}

// fail keeps the error and returns it.
func (l *link) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failedAt, l.err = l.stage, err
	return err
}

// failure returns the error of the last connection, and the stage that it
// failed at; nil if it came about.
func (l *link) failure() (stage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failedAt, l.err
}

// now returns how far the connection is.
func (l *link) now() stage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stage
}

func (l *link) dial(ctx context.Context, _ string) (net.Conn, error) {
	l.enter(dialing)
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", l.address)
	if err != nil {
		return nil, l.fail(err)
	}
	return conn, nil
}

// watched is TLS that waits for the node's first byte.
//
// In TLS 1.3 a client has finished the handshake before the server has judged
// its certificate; a refusal arrives instead of the first byte. A client that
// writes before it has read that may lose it: the server closes with data
// unread, and the reset discards what is on its way. An HTTP/2 server speaks
// without being asked (RFC 9113, 3.4), so that waiting costs nothing.
type watched struct {
	credentials.TransportCredentials
	link *link
}

// ClientHandshake implements credentials.TransportCredentials.
func (w watched) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	w.link.enter(handshaking)
	conn, info, err := w.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, w.link.fail(endOf(ctx, err))
	}
	w.link.enter(admitting)
	begun := &begunConn{Conn: conn, first: make([]byte, 1)}
	if _, err := io.ReadFull(conn, begun.first); err != nil {
		return nil, nil, w.link.fail(endOf(ctx, err))
	}
	w.link.enter(connected)
	return begun, info, nil
}

// endOf returns why ctx ended if that is what is behind err: gRPC closes the
// connection then, which looks like any other end.
func endOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Clone implements credentials.TransportCredentials.
func (w watched) Clone() credentials.TransportCredentials {
	return watched{w.TransportCredentials.Clone(), w.link}
}

// begunConn is a connection whose first byte has been read already.
type begunConn struct {
	net.Conn
	first []byte
}

// Read implements net.Conn. gRPC reads from one goroutine.
func (c *begunConn) Read(b []byte) (int, error) {
	if len(c.first) > 0 && len(b) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}
