// Package tftp serves files to boot firmware by TFTP, read-only: RFC 1350 with
// the options of RFC 2347, blksize of 2348, tsize and timeout of 2349 and
// windowsize of 7440.
//
// github.com/pin/tftp/v3, as of v3.1.0, was measured against what firmware needs
// and is the client of this package's tests alone: it drops windowsize, and its
// "anticipate" mode sends several blocks to clients that did not ask for it; it
// leaves tsize out for an empty file; it has no bound on sessions, no events
// while a transfer runs, and one error code, 1, for all; a request that is
// repeated gets a second transfer; and it answers an ERROR with an ERROR.
package tftp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/ipv4"
)

// Content is what a client reads. It may be made for that client alone.
type Content interface {
	io.ReaderAt
	io.Closer
	Size() int64 // bytes
}

// Options is what a Server needs. Open is required; zero values of the rest have
// defaults.
type Options struct {
	// Open returns the content of a name, which is as the client sent it: see
	// Clean. fs.ErrNotExist and fs.ErrPermission in an error's chain have their
	// code in TFTP. The context ends with the server.
	Open func(ctx context.Context, c Client, name string) (Content, error)
	// Interface is the one that is served; empty for all.
	Interface string
	// MTU is the largest packet of the link in bytes; 0 takes that of the
	// interface that the request came by.
	MTU int
	// MaxSessions is how many transfers run at a time; 64. One more is answered
	// with an error, and firmware tries again.
	MaxSessions int
	// MaxPerClient is how many of them one address may have; 8. Firmware has one,
	// or two while the end of the first is lost.
	MaxPerClient int
	// Timeout is how long the server waits for an ACK before it sends again,
	// unless the client asked for another; 1 s.
	Timeout time.Duration
	// Retries is how often it sends again before it gives up; 5.
	Retries int
	// Pace is how long a client may take for 64 KiB, or for what is left of a file;
	// 1 min. Without a bound a client could hold its session for ever by small
	// blocks and late ACKs.
	Pace time.Duration
	// OnEvent is told each step, in the order of each transfer, from several
	// goroutines. It must not block.
	OnEvent func(Event)
}

// Server answers read requests.
type Server struct {
	o        Options
	mu       sync.Mutex
	sessions map[netip.AddrPort]*session
	wg       sync.WaitGroup
}

// New returns a server with those options.
func New(o Options) (*Server, error) {
	if o.Open == nil {
		return nil, errors.New("make a TFTP server: Options.Open is missing")
	}
	if o.MTU < 0 || o.MaxSessions < 0 || o.MaxPerClient < 0 || o.Timeout < 0 || o.Retries < 0 || o.Pace < 0 {
		return nil, errors.New("make a TFTP server: MTU, MaxSessions, MaxPerClient, Timeout, Retries and Pace must not be negative")
	}
	o.defaults()
	return &Server{o: o, sessions: map[netip.AddrPort]*session{}}, nil
}

func (o *Options) defaults() {
	o.MaxSessions = cmp.Or(o.MaxSessions, 64)
	o.MaxPerClient = cmp.Or(o.MaxPerClient, 8)
	o.Timeout = cmp.Or(o.Timeout, time.Second)
	o.Retries = cmp.Or(o.Retries, 5)
	o.Pace = cmp.Or(o.Pace, time.Minute)
	if o.OnEvent == nil {
		o.OnEvent = func(Event) {}
	}
}

// arrival is a request and what is known of its way.
type arrival struct {
	data   []byte
	client Client
	mtu    int
	other  bool // it came by an interface that is not served
}

// Serve answers the requests on conn until the context ends, which is no error,
// or conn fails. It ends and awaits all transfers before it returns, and closes
// conn.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		stop()
		cancel()
		_ = conn.Close()
		s.wg.Wait()
	}()
	read := s.reader(conn)
	buf := make([]byte, maxRequest+1)
	for {
		a, err := read(buf)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			// The kernel reports unreachable clients on the socket that was used
			// to answer one; that is no reason to stop serving the others.
			var ne net.Error
			if errors.Is(err, net.ErrClosed) || !errors.As(err, &ne) {
				return fmt.Errorf("read TFTP requests on %v: %w", conn.LocalAddr(), err)
			}
			continue
		}
		s.handle(ctx, conn, a)
	}
}

// reader returns what receives requests. Where the system tells, it knows the
// address that a client sent to: answers from another would be dropped.
func (s *Server) reader(conn net.PacketConn) func([]byte) (arrival, error) {
	_, ok := conn.(*net.UDPConn)
	p4 := ipv4.NewPacketConn(conn)
	if !ok || p4.SetControlMessage(ipv4.FlagDst|ipv4.FlagInterface, true) != nil {
		return func(buf []byte) (arrival, error) {
			n, from, err := conn.ReadFrom(buf)
			a := arrival{data: buf[:n], mtu: s.o.MTU}
			if u, ok := from.(*net.UDPAddr); ok {
				a.client.Addr = unmap(u.AddrPort())
			}
			return a, err
		}
	}
	return func(buf []byte) (arrival, error) {
		n, cm, from, err := p4.ReadFrom(buf)
		a := arrival{data: buf[:n], mtu: s.o.MTU}
		if u, ok := from.(*net.UDPAddr); ok {
			a.client.Addr = unmap(u.AddrPort())
		}
		if cm != nil {
			a.client.LocalIP, _ = netip.AddrFromSlice(cm.Dst.To4())
			if ifi, err := net.InterfaceByIndex(cm.IfIndex); err == nil {
				a.mtu = cmp.Or(s.o.MTU, ifi.MTU)
				a.other = s.o.Interface != "" && ifi.Name != s.o.Interface
			}
		}
		return a, err
	}
}

func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// handle starts a transfer, or says why there is none.
func (s *Server) handle(ctx context.Context, conn net.PacketConn, a arrival) {
	if a.other || !a.client.Addr.IsValid() || isBroadcast(a.client.LocalIP) {
		return // RFC 1123, 4.2.3.5: requests to a broadcast address get no answer
	}
	req, err := parseRequest(a.data)
	refuse := func(code uint16, err error) {
		_, _ = conn.WriteTo(appendError(nil, code, err.Error()), net.UDPAddrFromAddrPort(a.client.Addr))
		s.o.OnEvent(Event{Kind: Refused, Client: a.client, Name: req.name, Reason: err.Error(), Err: err})
	}
	switch {
	case errors.Is(err, errWrite):
		refuse(codeAccess, err)
		return
	case errors.Is(err, errMode):
		refuse(codeIllegal, err)
		return
	case err != nil:
		return
	}
	c := newSession(s, a, req)
	s.mu.Lock()
	old, again := s.sessions[a.client.Addr]
	if again && old.repeats(a.data) {
		s.mu.Unlock()
		s.later(ctx, conn, a, old)
		return
	}
	full := s.full(a.client.Addr)
	if again {
		full = nil
	}
	if full == nil {
		s.sessions[a.client.Addr] = c
		s.wg.Add(1)
	}
	s.mu.Unlock()
	if full != nil {
		refuse(codeUndefined, full)
		return
	}
	if again {
		old.replace()
	}
	go func() {
		defer s.wg.Done()
		c.run(ctx)
		s.mu.Lock()
		if s.sessions[a.client.Addr] == c {
			delete(s.sessions, a.client.Addr)
		}
		s.mu.Unlock()
		close(c.done)
	}()
}

// full returns why a client gets no further transfer now, nil if it does. The caller
// holds mu.
func (s *Server) full(client netip.AddrPort) error {
	if len(s.sessions) >= s.o.MaxSessions {
		return fmt.Errorf("%d transfers are running, which is the limit: try again later", s.o.MaxSessions)
	}
	own := 0
	for other := range s.sessions {
		if other.Addr() == client.Addr() {
			own++
		}
	}
	if own >= s.o.MaxPerClient {
		return fmt.Errorf("%d transfers to this address are running, which is the limit for one: try again later", own)
	}
	return nil
}

// later handles what looks like a session's request once more, if that session
// ends right now: then its end was on the way, and the client means a new one, as a
// Pi does that looks at a file and then loads it. Else it is dropped.
func (s *Server) later(ctx context.Context, conn net.PacketConn, a arrival, old *session) {
	const soon = 100 * time.Millisecond
	if !old.waiter.CompareAndSwap(false, true) {
		return
	}
	a.data = bytes.Clone(a.data)
	s.wg.Go(func() {
		select {
		case <-old.done:
			if ctx.Err() == nil {
				s.handle(ctx, conn, a)
			}
		case <-time.After(soon):
			old.waiter.Store(false)
		case <-ctx.Done():
		}
	})
}

func isBroadcast(a netip.Addr) bool {
	return a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}
