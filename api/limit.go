package api

import (
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// limited accepts at most as many connections at once as slots has room for.
// The next ones wait in the kernel's backlog.
type limited struct {
	net.Listener
	slots  chan struct{}
	done   chan struct{}
	close  sync.Once
	paused chan struct{}
	pauses sync.Once

	mu    sync.Mutex
	open  map[*limitedConn]struct{}
	ended bool
}

func limitListener(l net.Listener, n int) *limited {
	return &limited{Listener: l, slots: make(chan struct{}, n), done: make(chan struct{}), paused: make(chan struct{}), open: make(map[*limitedConn]struct{})}
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
		select {
		case <-l.paused:
			<-l.done
			return nil, net.ErrClosed
		default:
			return nil, err
		}
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

// pause accepts nothing more, without a word to the clients: they wait in the
// kernel's backlog for whoever serves the socket next. gRPC's own way to stop
// hangs up on a connection that it has accepted and not yet looked at.
func (l *limited) pause() {
	l.pauses.Do(func() {
		close(l.paused)
		if d, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
			// A deadline that has passed ends the Accept under way.
			_ = d.SetDeadline(time.Unix(1, 0))
		}
	})
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
