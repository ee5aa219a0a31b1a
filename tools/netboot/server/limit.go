package server

import (
	"net"
	"sync"
)

// limit has at most n connections open at once; who comes then waits. It is not
// x/net's netutil.LimitListener, whose connections hide that the kernel can send a
// file by itself.
func limit(l *net.TCPListener, n int) net.Listener {
	return &limited{TCPListener: l, taken: make(chan struct{}, n)}
}

type limited struct {
	*net.TCPListener
	taken chan struct{}
}

// Accept implements net.Listener. It may wait behind Close until a connection is
// closed: a server closes both.
func (l *limited) Accept() (net.Conn, error) {
	l.taken <- struct{}{}
	c, err := l.AcceptTCP()
	if err != nil {
		<-l.taken
		return nil, err
	}
	return &limitedConn{TCPConn: c, release: func() { <-l.taken }}, nil
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
