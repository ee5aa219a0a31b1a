package tftp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"
)

// client is one that does what a test wants of it, and reads files as firmware
// does.
type client struct {
	t      testing.TB
	conn   *net.UDPConn
	server netip.AddrPort // where requests go
	peer   netip.AddrPort // where the transfer comes from
	buf    []byte
	// drop is asked for each DATA block that came, and loses it where true.
	drop func(block uint16) bool
	// each is asked for each DATA block in its turn; false ends the transfer.
	each func(block int64, payload []byte) bool
	data int // DATA packets that came, lost ones too
}

func newClient(t testing.TB, server netip.AddrPort) *client {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t: t, conn: conn, server: server, buf: make([]byte, 65536)}
}

// serve starts a server on the loopback for the length of a test.
func serve(t testing.TB, o Options) netip.AddrPort {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, conn) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("Serve does not end")
		}
	})
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

func readRequest(name string, options ...string) []byte {
	p := append([]byte{0, opRead}, name...)
	p = append(p, "\x00octet\x00"...)
	for _, o := range options {
		p = append(append(p, o...), 0)
	}
	return p
}

func (c *client) ask(request []byte) {
	c.t.Helper()
	c.peer = netip.AddrPort{}
	if _, err := c.conn.WriteToUDPAddrPort(request, c.server); err != nil {
		c.t.Fatal(err)
	}
}

// packet is what came, or nil after a time in which nothing did.
func (c *client) packet(wait time.Duration) []byte {
	_ = c.conn.SetReadDeadline(time.Now().Add(wait))
	n, from, err := c.conn.ReadFromUDPAddrPort(c.buf)
	if err != nil {
		return nil
	}
	if !c.peer.IsValid() {
		c.peer = from
	}
	return c.buf[:n]
}

func (c *client) send(p []byte) error {
	_, err := c.conn.WriteToUDPAddrPort(p, c.peer)
	return err
}

func (c *client) ack(block uint16) error {
	p := [4]byte{0, opAck}
	binary.BigEndian.PutUint16(p[2:], block)
	return c.send(p[:])
}

// options are those of an OACK.
func options(p []byte) map[string]string {
	words, m := bytes.Split(p[2:], []byte{0}), map[string]string{}
	for ; len(words) >= 2; words = words[2:] {
		m[string(words[0])] = string(words[1])
	}
	return m
}

var errRemote = errors.New("the server sent an error")

// read reads a file to its end and returns its size. What is not in order is
// dropped, and has the last good block confirmed again, as RFC 7440 wants.
func (c *client) read(name string, opts ...string) (int64, error) {
	c.ask(readRequest(name, opts...))
	return c.receive()
}

func (c *client) receive() (total int64, err error) {
	size, window, done := 512, int64(1), int64(0)
	sinceAck := int64(0)
	_ = c.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	for armed := 0; ; armed++ {
		if armed%1024 == 1023 {
			_ = c.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		}
		n, from, err := c.conn.ReadFromUDPAddrPort(c.buf)
		if err != nil {
			return total, fmt.Errorf("after %d blocks: %w", done, err)
		}
		if !c.peer.IsValid() {
			c.peer = from
		}
		p := c.buf[:n]
		switch binary.BigEndian.Uint16(p) {
		case opError:
			return total, fmt.Errorf("%w: %d %q", errRemote, binary.BigEndian.Uint16(p[2:]), p[4:])
		case opOACK:
			o := options(p)
			if v, err := strconv.Atoi(o["blksize"]); err == nil {
				size = v
			}
			if v, err := strconv.Atoi(o["windowsize"]); err == nil {
				window = int64(v)
			}
			if err := c.ack(0); err != nil {
				return total, err
			}
		case opData:
			c.data++
			block := binary.BigEndian.Uint16(p[2:])
			if c.drop != nil && c.drop(block) {
				continue
			}
			if block != uint16(done+1) {
				if window > 1 {
					if err := c.ack(uint16(done)); err != nil {
						return total, err
					}
				}
				sinceAck = 0
				continue
			}
			done++
			sinceAck++
			total += int64(n - headerSize)
			if c.each != nil && !c.each(done, p[headerSize:]) {
				return total, nil
			}
			end := n-headerSize < size
			if sinceAck == window || end {
				sinceAck = 0
				if err := c.ack(block); err != nil {
					return total, err
				}
			}
			if end {
				return total, nil
			}
		}
	}
}

// pattern is content of which each block differs.
func pattern(size int) []byte {
	p := make([]byte, 0, size+16)
	for i := 0; len(p) < size; i++ {
		p = fmt.Appendf(p, "%015d\n", i)
	}
	return p[:size]
}
