package tftp

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"machined/tools/netlab"
	"machined/tools/testenv"
)

// at has a client ask from another address of the loopback.
func (c *client) at(address string) *client {
	c.t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(address)})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	c.conn = conn
	return c
}

// TestMaxPerClient: one address cannot take the places of all others.
func TestMaxPerClient(t *testing.T) {
	f := newFiles(t, map[string]Content{"file": Bytes(pattern(5000))})
	o := f.options()
	o.Timeout = 10 * time.Second
	server := serve(t, o)
	var all []*client
	for range 8 {
		cl := newClient(t, server)
		cl.ask(readRequest("file"))
		if p := cl.packet(5 * time.Second); len(p) < 2 || p[1] != opData {
			t.Fatalf("the answer is %q; want DATA", p)
		}
		all = append(all, cl)
	}
	ninth := newClient(t, server)
	if _, err := ninth.read("file"); !errors.Is(err, errRemote) || !strings.Contains(err.Error(), "limit for one") {
		t.Errorf("a ninth transfer to one address ends with %v; want an error", err)
	}
	if n, err := newClient(t, server).at("127.0.0.2").read("file"); n != 5000 || err != nil {
		t.Errorf("another address gets %d bytes, %v; want all 5000", n, err)
	}
	all[0].ask(readRequest("file", "blksize", "600")) // in place of the one before
	for p := all[0].packet(5 * time.Second); p == nil || p[1] != opOACK; p = all[0].packet(5 * time.Second) {
		if p == nil || p[1] == opError {
			t.Fatalf("another request by a port that has a transfer gets %q; want it served", p)
		}
	}
	_ = all[1].send(appendError(nil, 0, ""))
	for range 1000 { // the place is free right after the end
		if n, err := ninth.read("file"); n == 5000 && err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the ninth gets no place when another is done")
}

// TestPace: a client that answers, with next to nothing each time, does not keep its
// place. One that takes what is left of a file does.
func TestPace(t *testing.T) {
	const pace = 2 * time.Second
	f := newFiles(t, map[string]Content{"large": Bytes(pattern(1 << 20)), "small": Bytes(pattern(300))})
	o := f.options()
	o.Pace, o.Timeout = pace, 5*time.Second
	server := serve(t, o)
	for i, c := range []struct {
		name, file string
		opts       []string
		each       time.Duration // a client waits for with its ACK
		slow       bool
	}{
		{"small blocks", "large", []string{"blksize", "8", "timeout", "30"}, 50 * time.Millisecond, true},
		{"small blocks of a small file", "small", []string{"blksize", "8"}, 200 * time.Millisecond, true},
		{"a small file", "small", []string{"blksize", "64"}, 50 * time.Millisecond, false},
	} {
		cl := newClient(t, server)
		cl.each = func(int64, []byte) bool { time.Sleep(c.each); return true }
		begun := time.Now()
		_, err := cl.read(c.file, c.opts...)
		e := f.last(i + 1)
		if slow := e.Kind == Failed && errors.Is(e.Err, errSlow); slow != c.slow || (err != nil) != c.slow {
			t.Errorf("%s: the client gets %v, and the end is %+v; want it ended: %v", c.name, err, e, c.slow)
		}
		if took := time.Since(begun); c.slow && took > pace+15*time.Second {
			t.Errorf("%s: it was ended after %v; want about %v", c.name, took, pace)
		}
	}
}

// TestInterface: with an interface, requests by others have no answer. The loopback is
// one here.
func TestInterface(t *testing.T) {
	testenv.NeedRoot(t, "ip")
	f := newFiles(t, map[string]Content{"file": Bytes(pattern(5000))})
	o := f.options()
	o.Interface = "lo"
	if n, err := newClient(t, serve(t, o)).read("file"); n != 5000 || err != nil {
		t.Errorf("by the interface come %d bytes, %v; want 5000", n, err)
	}
	netlab.Bridge("other0").Add(t, "10.0.0.1/24")
	o.Interface = "other0"
	cl := newClient(t, serve(t, o))
	cl.ask(readRequest("file"))
	if p := cl.packet(200 * time.Millisecond); p != nil {
		t.Errorf("by another interface comes %q; want nothing", p)
	}
}

// TestKeepsPace has the arithmetic of it.
func TestKeepsPace(t *testing.T) {
	for _, c := range []struct {
		total, before, blocks int64
		want                  bool
	}{
		{1 << 20, 0, 128, true}, {1 << 20, 0, 127, false}, {1 << 20, 1<<20 - 1024, 2048, true}, {1 << 20, 1<<20 - 1024, 2047, false},
		{0, 0, 0, false}, {512, 512, 1, false}, {512, 0, 1, true},
	} {
		x := transfer{total: c.total, terms: terms{blockSize: 512}, base: c.blocks, pacedAt: c.before, paced: time.Unix(0, 0)}
		if err := x.keepsPace(time.Unix(60, 0)); (err == nil) != c.want || c.want && x.pacedAt != x.bytes() {
			t.Errorf("%d of %d bytes after %d: %v; want it to keep its place: %v", x.bytes(), c.total, c.before, err, c.want)
		}
	}
}
