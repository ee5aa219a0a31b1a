package tftp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// files is an Open by a map, and keeps the events.
type files struct {
	t       testing.TB
	content map[string]Content
	mu      sync.Mutex
	events  []Event
	news    chan struct{}
}

func newFiles(t testing.TB, content map[string]Content) *files {
	return &files{t: t, content: content, news: make(chan struct{}, 1)}
}

func (f *files) open(_ context.Context, _ Client, name string) (Content, error) {
	if c, ok := f.content[name]; ok {
		return c, nil
	}
	return nil, fs.ErrNotExist
}

func (f *files) options() Options {
	return Options{Open: f.open, OnEvent: f.event, MTU: 1500}
}

func (f *files) event(e Event) {
	f.mu.Lock()
	f.events = append(f.events, e)
	f.mu.Unlock()
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// last awaits the n-th end of a request.
func (f *files) last(n int) Event {
	f.t.Helper()
	late := time.After(20 * time.Second)
	for {
		f.mu.Lock()
		ends := slices.DeleteFunc(slices.Clone(f.events), func(e Event) bool { return e.Kind == Started || e.Kind == Progress })
		f.mu.Unlock()
		if len(ends) >= n {
			return ends[n-1]
		}
		select {
		case <-f.news:
		case <-late:
			f.t.Fatalf("%d requests ended; want %d", len(ends), n)
		}
	}
}

// TestOptions has what is answered to each combination of options. An option that
// was not asked for stops boot ROMs: RFC 2347 has them end with error 8.
func TestOptions(t *testing.T) {
	const size = 3000
	f := newFiles(t, map[string]Content{"file": Bytes(pattern(size)), "empty": Bytes(nil)})
	at := serve(t, f.options())
	for _, c := range []struct {
		name, file string
		asked      []string
		oack       string // empty wants DATA
		first      int    // bytes of block 1
	}{
		{"none", "file", nil, "", 512},
		{"tsize", "file", []string{"tsize", "0"}, "tsize\x003000\x00", 512},
		{"tsize of an empty file", "empty", []string{"tsize", "0"}, "tsize\x000\x00", 0},
		{"blksize", "file", []string{"blksize", "1024"}, "blksize\x001024\x00", 1024},
		{"blksize above the MTU", "file", []string{"blksize", "8192"}, "blksize\x001468\x00", 1468},
		{"the largest blksize", "file", []string{"blksize", "65464"}, "blksize\x001468\x00", 1468},
		{"blksize out of range", "file", []string{"blksize", "65465"}, "", 512},
		{"blksize 7", "file", []string{"blksize", "7"}, "", 512},
		{"blksize 8", "file", []string{"blksize", "8"}, "blksize\x008\x00", 8},
		{"no number", "file", []string{"blksize", "1k", "tsize", "-1"}, "", 512},
		{"windowsize", "file", []string{"windowsize", "4"}, "windowsize\x004\x00", 512},
		{"a large windowsize", "file", []string{"windowsize", "65535"}, "windowsize\x0064\x00", 512},
		{"windowsize 0", "file", []string{"windowsize", "0"}, "", 512},
		{"timeout", "file", []string{"timeout", "3"}, "timeout\x003\x00", 512},
		{"a long timeout", "file", []string{"timeout", "255"}, "", 512},
		{"EDK2", "file", []string{"tsize", "0", "blksize", "1468", "windowsize", "4"}, "tsize\x003000\x00blksize\x001468\x00windowsize\x004\x00", 1468},
		{"spelled otherwise", "file", []string{"BlkSize", "600", "TSIZE", "0"}, "BlkSize\x00600\x00TSIZE\x003000\x00", 600},
		{"unknown ones", "file", []string{"multicast", "", "utimeout", "9", "rollover", "0", "blksize", "600"}, "blksize\x00600\x00", 600},
		{"one twice", "file", []string{"blksize", "600", "blksize", "700"}, "blksize\x00600\x00", 600},
		{"a name without a value", "file", []string{"blksize", "600", "tsize"}, "blksize\x00600\x00", 600},
	} {
		cl := newClient(t, at)
		cl.ask(readRequest(c.file, c.asked...))
		p := cl.packet(5 * time.Second)
		if c.oack != "" {
			if want := "\x00\x06" + c.oack; string(p) != want {
				t.Errorf("%s: the answer is %q; want %q", c.name, p, want)
				continue
			}
			_ = cl.ack(0)
			p = cl.packet(5 * time.Second)
		}
		if len(p) != headerSize+c.first || !bytes.HasPrefix(p, []byte{0, opData, 0, 1}) {
			t.Errorf("%s: the first block is %d bytes that begin with %q; want %d", c.name, len(p), p[:min(len(p), 4)], headerSize+c.first)
		}
		_ = cl.send(appendError(nil, 0, "enough"))
	}
}

// TestRollover reads a file of more blocks than the 16 bits of their number.
func TestRollover(t *testing.T) {
	const size = 33<<20 + 100
	data := pattern(size)
	f := newFiles(t, map[string]Content{"large": Bytes(data), "even": Bytes(data[:65536*512])})
	at := serve(t, f.options())
	for i, c := range []struct {
		file string
		size int64
		opts []string
	}{
		{"large", size, nil},
		{"large", size, []string{"windowsize", "16", "blksize", "512"}},
		{"even", 65536 * 512, []string{"windowsize", "7"}}, // the last block is empty, its number 1 again
	} {
		cl := newClient(t, at)
		at := 0
		cl.each = func(_ int64, p []byte) bool {
			if !bytes.Equal(p, data[at:at+len(p)]) {
				t.Errorf("%s %v: the content differs behind %d bytes", c.file, c.opts, at)
				return false
			}
			at += len(p)
			return true
		}
		n, err := cl.read(c.file, c.opts...)
		if err != nil || n != c.size {
			t.Errorf("%s %v: %d bytes, %v; want %d", c.file, c.opts, n, err, c.size)
		}
		if e := f.last(i + 1); e.Kind != Done || e.Bytes != c.size || e.Total != c.size {
			t.Errorf("%s %v: the end is %+v", c.file, c.opts, e)
		}
	}
}

// TestSorcerersApprentice: an ACK that comes twice must not have its block sent
// twice, or each one after it is.
func TestSorcerersApprentice(t *testing.T) {
	f := newFiles(t, map[string]Content{"file": Bytes(pattern(50 * 512))})
	o := f.options()
	o.Timeout = 10 * time.Second // what is sent twice is no retry
	cl := newClient(t, serve(t, o))
	cl.ask(readRequest("file"))
	for block := uint16(1); block <= 51; block++ {
		p := cl.packet(5 * time.Second)
		if len(p) < headerSize || binary.BigEndian.Uint16(p[2:]) != block {
			t.Fatalf("a packet %q came; want block %d", p[:min(len(p), 4)], block)
		}
		for range 3 {
			_ = cl.ack(block)
		}
	}
	if p := cl.packet(100 * time.Millisecond); p != nil {
		t.Errorf("behind the end came %q", p[:min(len(p), 4)])
	}
	if e := f.last(1); e.Kind != Done {
		t.Errorf("the end is %+v; want done", e)
	}
}

// TestLoss loses blocks at random places, and the file comes whole.
func TestLoss(t *testing.T) {
	data := pattern(200*512 + 7)
	f := newFiles(t, map[string]Content{"file": Bytes(data)})
	o := f.options()
	// Most retries are for a client that a busy machine leaves waiting.
	o.Timeout, o.Retries = 20*time.Millisecond, 100
	at := serve(t, o)
	for _, opts := range [][]string{nil, {"windowsize", "8"}, {"windowsize", "64", "blksize", "100"}} {
		cl := newClient(t, at)
		var got bytes.Buffer
		n, lost := uint32(7), 0
		cl.drop = func(uint16) bool {
			n = n*1664525 + 1013904223
			if n>>24 < 13 { // one in twenty
				lost++
				return true
			}
			return false
		}
		cl.each = func(_ int64, p []byte) bool { got.Write(p); return true }
		if _, err := cl.read("file", opts...); err != nil || !bytes.Equal(got.Bytes(), data) || lost == 0 {
			t.Errorf("%v, %d blocks lost: %d bytes, %v; want the file of %d", opts, lost, got.Len(), err, len(data))
		}
	}
}

// TestSilence: a client that is gone holds its session for a bounded time.
func TestSilence(t *testing.T) {
	f := newFiles(t, map[string]Content{"file": Bytes(pattern(5000))})
	o := f.options()
	o.Timeout, o.Retries = 5*time.Millisecond, 3
	cl := newClient(t, serve(t, o))
	cl.ask(readRequest("file"))
	if e := f.last(1); e.Kind != Failed || !errors.Is(e.Err, errSilent) {
		t.Errorf("the end is %+v; want failed, %v", e, errSilent)
	}
	blocks := 0
	for p := cl.packet(time.Second); p != nil && p[1] == opData; p = cl.packet(time.Second) {
		blocks++
	}
	if blocks != 4 {
		t.Errorf("block 1 was sent %d times; want 4, three of them retries", blocks)
	}
}

// TestEnds has the ways in which clients stop early, and how they are told of.
func TestEnds(t *testing.T) {
	f := newFiles(t, map[string]Content{"file": Bytes(pattern(5000)), "short": Bytes([]byte("x"))})
	at := serve(t, f.options())
	for i, c := range []struct {
		name, file string
		opts       []string
		blocks     int // that are confirmed
		code       uint16
		kind       Kind
		normal     bool
		reason     string
	}{
		{"EDK2 asks for the size", "file", []string{"tsize", "0", "blksize", "1468"}, 0, 8, Aborted, true, "asked for the size alone"},
		{"the same with code 0", "file", []string{"tsize", "0"}, 0, 0, Aborted, true, "asked for the size alone"},
		{"a Raspberry Pi stops after block 1", "file", []string{"tsize", "0"}, 1, 0, Aborted, true, "looked whether the file is there"},
		{"of a file of one block", "short", nil, 0, 0, Aborted, true, "looked whether the file is there"},
		{"in the middle", "file", nil, 3, 0, Aborted, false, `error 0 "stop"`},
		{"the disk is full", "file", nil, 1, 3, Aborted, false, `error 3 "stop"`},
	} {
		cl := newClient(t, at)
		cl.ask(readRequest(c.file, c.opts...))
		cl.packet(5 * time.Second)
		if len(c.opts) > 0 && c.blocks > 0 {
			_ = cl.ack(0)
			cl.packet(5 * time.Second)
		}
		for b := range c.blocks {
			_ = cl.ack(uint16(b + 1))
			cl.packet(5 * time.Second)
		}
		_ = cl.send(appendError(nil, c.code, "stop"))
		e := f.last(i + 1)
		if e.Kind != c.kind || e.Normal != c.normal || !strings.Contains(e.Reason, c.reason) {
			t.Errorf("%s: the end is %+v; want %s, normal %v, %q", c.name, e, c.kind, c.normal, c.reason)
		}
		// RFC 1350, section 5: an ERROR is not answered.
		if late := cl.packet(20 * time.Millisecond); late != nil {
			t.Errorf("%s: the ERROR was answered with %q", c.name, late)
		}
	}
}

// TestRefusals has the requests that get an error.
func TestRefusals(t *testing.T) {
	f := newFiles(t, map[string]Content{"file": Bytes(nil)})
	at := serve(t, f.options())
	for i, c := range []struct {
		name, request string
		code          uint16
		text          string
	}{
		{"no such file", "\x00\x01none\x00octet\x00", 1, "file not found"},
		{"a write", "\x00\x02file\x00octet\x00", 2, "read-only"},
		{"netascii", "\x00\x01file\x00netascii\x00", 4, "octet"},
		{"mail", "\x00\x01file\x00mail\x00", 4, "octet"},
	} {
		cl := newClient(t, at)
		cl.ask([]byte(c.request))
		p := cl.packet(5 * time.Second)
		if len(p) < 5 || p[1] != opError || binary.BigEndian.Uint16(p[2:]) != c.code || !strings.Contains(string(p), c.text) || p[len(p)-1] != 0 {
			t.Errorf("%s: the answer is %q; want error %d with %q", c.name, p, c.code, c.text)
		}
		if e := f.last(i + 1); e.Kind != Refused || e.Err == nil {
			t.Errorf("%s: the event is %+v; want refused", c.name, e)
		}
	}
}

func TestMaxSessions(t *testing.T) {
	f := newFiles(t, map[string]Content{"file": Bytes(pattern(5000))})
	o := f.options()
	o.MaxSessions, o.Timeout = 2, 10*time.Second
	at := serve(t, o)
	first, second := newClient(t, at), newClient(t, at)
	for _, cl := range []*client{first, second} {
		cl.ask(readRequest("file"))
		if p := cl.packet(5 * time.Second); len(p) < 2 || p[1] != opData {
			t.Fatalf("the answer is %q; want DATA", p)
		}
	}
	third := newClient(t, at)
	third.ask(readRequest("file"))
	if p := third.packet(5 * time.Second); len(p) < 5 || p[1] != opError || !strings.Contains(string(p), "try again later") {
		t.Errorf("the third gets %q; want an error", p)
	}
	_ = first.send(appendError(nil, 0, ""))
	f.last(2)
	for range 100 { // the place is free right after the event
		if _, err := third.read("file"); err == nil {
			return
		}
	}
	t.Error("the third gets no place when the first is done")
}

type broken struct{ Content }

func (broken) ReadAt([]byte, int64) (int, error) { return 0, errors.New("no such sector") }

func TestContentFails(t *testing.T) {
	f := newFiles(t, map[string]Content{"file": broken{Bytes(pattern(5000))}})
	cl := newClient(t, serve(t, f.options()))
	if _, err := cl.read("file"); !errors.Is(err, errRemote) || strings.Contains(err.Error(), "sector") {
		t.Errorf("the client gets %v; want an error that does not tell about this machine", err)
	}
	if e := f.last(1); e.Kind != Failed || !strings.Contains(e.Err.Error(), "no such sector") {
		t.Errorf("the event is %+v; want failed with the cause", e)
	}
}

// TestLocalIP: the content may depend on the address that the client reached.
func TestLocalIP(t *testing.T) {
	got := make(chan Client, 1)
	at := serve(t, Options{Open: func(_ context.Context, c Client, _ string) (Content, error) {
		got <- c
		return nil, fs.ErrNotExist
	}})
	cl := newClient(t, at)
	cl.ask(readRequest("file"))
	want := Client{Addr: netip.MustParseAddrPort(cl.conn.LocalAddr().String()), LocalIP: netip.MustParseAddr("127.0.0.1")}
	if c := <-got; c != want {
		t.Errorf("the client is %+v; want %+v", c, want)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, o := range []Options{{}, {Open: (&Dir{}).Open, Retries: -1}} {
		if _, err := New(o); err == nil {
			t.Errorf("New(%+v) takes that; want an error", o)
		}
	}
}
