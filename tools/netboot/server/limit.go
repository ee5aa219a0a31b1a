package server

import (
	"net"
	"net/netip"
	"sync"
)

// limit has at most n connections open at once; who comes then waits. One address
// has at most each of them, and what it opens beyond that is closed, since to wait
// for it would have all others wait. It is not x/net's netutil.LimitListener, whose
// connections hide that the kernel can send a file by itself.
func limit(l *net.TCPListener, n, each int) net.Listener {
	return &limited{TCPListener: l, each: each, taken: make(chan struct{}, n), by: make(map[netip.Addr]int)}
}

type limited struct {
	*net.TCPListener
	each  int
	taken chan struct{}

	mu sync.Mutex
	by map[netip.Addr]int // open connections
}

// Accept implements net.Listener. It may wait behind Close until a connection is
// closed: a server closes both.
func (l *limited) Accept() (net.Conn, error) {
	l.taken <- struct{}{}
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			<-l.taken
			return nil, err
		}
		client := clientOf(c)
		if !l.take(client) {
			_ = c.Close()
			continue
		}
		return &limitedConn{TCPConn: c, release: func() {
			l.give(client)
			<-l.taken
		}}, nil
	}
}

func clientOf(c *net.TCPConn) netip.Addr {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return a.AddrPort().Addr().Unmap()
}

// take counts a connection more, unless the client has all that it may.
func (l *limited) take(client netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[client] >= l.each {
		return false
	}
	l.by[client]++
	return true
}

func (l *limited) give(client netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[client]--; l.by[client] == 0 {
		delete(l.by, client)
	}
}

// limitedConn has ReadFrom, which is sendfile(2) for a file.
type limitedConn struct {
	*net.TCPConn
	once    sync.Once
	release func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	err := c.TCPConn.Close()
	c.once.Do(c.release)
	return err
}
