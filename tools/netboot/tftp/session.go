package tftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"machined/tools/netboot/iface"
)

// session is one request from its arrival to its end.
type session struct {
	server  *Server
	from    arrival
	request request
	cancel  context.CancelFunc
	ctx     context.Context
	acked   atomic.Bool // the client has answered
	over    atomic.Bool // the client has begun another
	waiter  atomic.Bool // a request waits for this session's end
	done    chan struct{}
	start   time.Time
}

func newSession(s *Server, a arrival, r request) *session {
	a.data = bytes.Clone(a.data)
	c := &session{server: s, from: a, request: r, done: make(chan struct{}), start: time.Now()}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// repeats is true for the request of this session once more, sent since the first
// answer was late: the session sends that again by itself. To take it for a new
// one would end a transfer that has just begun.
func (c *session) repeats(data []byte) bool {
	const lateness = time.Second / 2
	if !bytes.Equal(data, c.from.data) {
		return false
	}
	return !c.acked.Load() || time.Since(c.start) < lateness
}

// replace ends a session whose client has begun another from the same port. Boot
// ROMs with few ports do, and the end of the transfer before may have been lost.
// The client hears no more of it: an ERROR would be taken for the new one's.
func (c *session) replace() {
	c.over.Store(true)
	c.cancel()
}

func (c *session) run(ctx context.Context) {
	defer c.cancel()
	stop := context.AfterFunc(ctx, c.cancel)
	defer stop()
	conn, err := c.dial()
	if err != nil {
		c.event(Event{Kind: Failed, Err: fmt.Errorf("open a socket to %v: %w", c.from.client.Addr, err)})
		return
	}
	defer conn.Close()
	content, err := c.server.o.Open(c.ctx, c.from.client, c.request.name)
	if err != nil && c.over.Load() {
		return
	}
	if err != nil {
		c.refuse(conn, err)
		return
	}
	defer content.Close()
	// A deadline in the past ends a wait at once; the socket stays open for the
	// last message.
	interrupt := context.AfterFunc(c.ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer interrupt()
	c.send(conn, content)
}

// dial opens the socket that the transfer runs on, RFC 1350, section 4. It is
// connected: the kernel drops what others send to it, and tells when the
// client's port is closed.
func (c *session) dial() (*net.UDPConn, error) {
	var d net.Dialer
	if name := c.server.o.Interface; name != "" {
		// Else a sender's address that is made up would have this machine send a file
		// into another of its networks.
		d.Control = iface.Control(name)
	}
	if ip := c.from.client.LocalIP; ip.IsValid() {
		d.LocalAddr = &net.UDPAddr{IP: ip.AsSlice()}
	}
	conn, err := d.Dial("udp", c.from.client.Addr.String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}

// refuse answers a request whose file could not be opened. The client gets no
// path of this machine to see.
func (c *session) refuse(conn *net.UDPConn, err error) {
	code, text := uint16(codeUndefined), "the file could not be opened; see the server's log"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code, text = codeNotFound, "file not found"
	case errors.Is(err, fs.ErrPermission):
		code, text = codeAccess, "access denied"
	}
	_, _ = conn.Write(appendError(nil, code, text))
	c.event(Event{Kind: Refused, Reason: text, Err: fmt.Errorf("open %q for %v: %w", c.request.name, c.from.client.Addr, err)})
}

func (c *session) send(conn *net.UDPConn, content Content) {
	start := time.Now()
	terms := negotiate(c.request.options, content.Size(), c.from.mtu)
	t := newTransfer(conn, content, terms, c.server.o)
	t.first = func() { c.acked.Store(true) }
	c.event(Event{Kind: Started, Total: t.total, Reason: fmt.Sprintf("blksize %d, windowsize %d", terms.blockSize, terms.window)})
	t.progress = func() {
		c.event(Event{Kind: Progress, Bytes: t.bytes(), Total: t.total, Took: time.Since(start)})
	}
	err := t.run(c.ctx)
	c.event(c.outcome(t, err, time.Since(start)))
	if err != nil && !errors.As(err, new(*stopped)) && !gone(err) && !c.over.Load() {
		_, _ = conn.Write(appendError(nil, codeUndefined, "the transfer ended; see the server's log"))
	}
}

// outcome says how a transfer ended.
func (c *session) outcome(t *transfer, err error, took time.Duration) Event {
	e := Event{Kind: Done, Bytes: t.bytes(), Total: t.total, Took: took}
	var s *stopped
	switch {
	case err == nil:
	case errors.As(err, &s):
		e.Kind, e.Reason = Aborted, s.Error()
		e.Normal, e.Reason = t.looked(s.code == codeNegotiation || s.code == codeUndefined, e.Reason)
	case gone(err) && t.base >= t.last-1:
		// All was sent and the client's port is closed: its last ACK was lost.
		e.Bytes = t.total
	case gone(err):
		e.Kind = Aborted
		e.Normal, e.Reason = t.looked(true, "the client closed its port")
	case c.over.Load(): // before its end was read, or since that was lost
		e.Kind = Aborted
		e.Normal, e.Reason = t.looked(true, "another request by the same port took its place")
	case c.ctx.Err() != nil:
		e.Kind, e.Reason = Aborted, "the server stops"
	default:
		e.Kind, e.Err = Failed, err
	}
	return e
}

func gone(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

func (c *session) event(e Event) {
	e.Client, e.Name = c.from.client, c.request.name
	c.server.o.OnEvent(e)
}
