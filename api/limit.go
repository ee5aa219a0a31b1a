package api

import (
	"maps"
	"net"
	"slices"
	"sync"
)

// limited accepts at most as many connections at once as slots has room for.
// The next ones wait in the kernel's backlog.
type limited struct {
	net.Listener
	slots chan struct{}
	done  chan struct{}
	close sync.Once

	mu    sync.Mutex
	open  map[*limitedConn]struct{}
	ended bool
}

func limitListener(l net.Listener, n int) *limited {
	return &limited{Listener: l, slots: make(chan struct{}, n), done: make(chan struct{}), open: make(map[*limitedConn]struct{})}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	conn := &limitedConn{Conn: c, from: l}
	l.mu.Lock()
	ended := l.ended
	if !ended {
		l.open[conn] = struct{}{}
	}
	l.mu.Unlock()
	if ended {
		conn.Close()
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l *limited) Close() error {
	l.close.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// cut closes all connections, and those that are accepted from now on.
func (l *limited) cut() {
	l.mu.Lock()
	l.ended = true
	conns := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}

type limitedConn struct {
	net.Conn
	once sync.Once
	from *limited
}

func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.from.mu.Lock()
		delete(c.from.open, c)
		c.from.mu.Unlock()
		<-c.from.slots
	})
	return err
}
