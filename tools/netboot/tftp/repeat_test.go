package tftp

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLookThenLoad: a request like the one before, by the same port, right behind
// the end of that, is a new one.
func TestLookThenLoad(t *testing.T) {
	f := newFiles(t, map[string]Content{"file": Bytes(pattern(5000))})
	cl := newClient(t, serve(t, f.options()))
	for i := range 200 {
		cl.ask(readRequest("file"))
		cl.packet(5 * time.Second)
		_ = cl.ack(1)
		_ = cl.send(appendError(nil, 0, "early termination"))
		cl.ask(readRequest("file"))
		for {
			p := cl.packet(5 * time.Second)
			if p == nil {
				t.Fatalf("round %d: the second request gets no answer", i)
			}
			if p[1] == opData && p[3] == 1 {
				break
			}
			cl.peer = netip.AddrPort{} // block 2 of the first
		}
		_ = cl.send(appendError(nil, 0, ""))
		f.last(2*i + 2)
	}
}

// TestRepeatedRequest: one that is sent again before the answer came gets no
// second transfer; another from the same port takes the first's place.
func TestRepeatedRequest(t *testing.T) {
	f := newFiles(t, map[string]Content{"file": Bytes(pattern(5000)), "other": Bytes(pattern(100))})
	o := f.options()
	o.Timeout = 10 * time.Second
	cl := newClient(t, serve(t, o))
	for range 3 {
		cl.ask(readRequest("file"))
	}
	cl.packet(5 * time.Second)
	for b := range uint16(2) {
		_ = cl.ack(b + 1)
		cl.packet(5 * time.Second)
	}
	if p := cl.packet(50 * time.Millisecond); p != nil {
		t.Errorf("the second request was answered with %q", p)
	}
	for range 3 {
		cl.ask(readRequest("file"))
	}
	if p := cl.packet(300 * time.Millisecond); p != nil {
		t.Errorf("the repeated request was answered with %q", p)
	}
	if n, err := cl.read("other"); n != 100 || err != nil {
		t.Errorf("another request by the same port: %d bytes, %v; want 100", n, err)
	}
	ends := []Event{f.last(1), f.last(2)} // in either order
	if !slices.ContainsFunc(ends, func(e Event) bool {
		return e.Kind == Aborted && e.Name == "file" && strings.Contains(e.Reason, "took its place")
	}) {
		t.Errorf("the ends are %+v; want that the first transfer's place was taken", ends)
	}
}
