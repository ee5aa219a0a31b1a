package server

import (
	"io"
	"net"
	"testing"
	"time"
)

// TestLimit has a connection more wait until another is closed.
func TestLimit(t *testing.T) {
	l, err := listenTCP("", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limited := limit(l, 1, 2)
	defer limited.Close()
	for range 2 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first, err := limited.Accept()
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error)
	go func() {
		c, err := limited.Accept()
		if err == nil {
			err = c.Close()
		}
		second <- err
	}()
	select {
	case err := <-second:
		t.Fatalf("a second connection is taken beside the first: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	_, _ = first.Close(), first.Close() // the second close gives no place
	if err := <-second; err != nil {
		t.Error(err)
	}
	if err := limited.Close(); err != nil {
		t.Error(err)
	}
	if _, err := limited.Accept(); err == nil {
		t.Error("Accept() after Close() has a connection")
	}
}

// TestLimitEach: one address cannot take the places of all others.
func TestLimitEach(t *testing.T) {
	l, err := listenTCP("", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limited := limit(l, 100, 2)
	defer limited.Close()
	accepted := make(chan net.Conn, 10)
	go func() {
		for {
			c, err := limited.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func(from string) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
		c, err := d.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	next := func() net.Conn {
		t.Helper()
		select {
		case c := <-accepted:
			return c
		case <-time.After(10 * time.Second):
			t.Fatal("a connection is not taken")
			return nil
		}
	}
	dial("127.0.0.1")
	dial("127.0.0.1")
	first, second := next(), next()
	defer second.Close()
	third := dial("127.0.0.1")
	_ = third.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := third.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a third connection of one address reads %v; want it closed", err)
	}
	dial("127.0.0.2")
	defer next().Close()
	_, _ = first.Close(), first.Close() // the second close gives no place
	dial("127.0.0.1")
	defer next().Close()
	last := dial("127.0.0.1")
	_ = last.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := last.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a connection more reads %v; want it closed", err)
	}
}
