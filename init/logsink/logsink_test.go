package logsink

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// logs keep the last Keep lines of each log.
type logs struct {
	keep int

	mu    sync.Mutex
	names []string
	lines map[string][]string
	first map[string]uint64
	moved chan struct{}
}

func newLogs(keep int) *logs {
	return &logs{keep: keep, lines: map[string][]string{}, first: map[string]uint64{}, moved: make(chan struct{})}
}

func (l *logs) write(name, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.names, name) {
		l.names = append(l.names, name)
	}
	l.lines[name] = append(l.lines[name], text)
	if drop := len(l.lines[name]) - l.keep; drop > 0 {
		l.lines[name], l.first[name] = l.lines[name][drop:], l.first[name]+uint64(drop)
	}
	close(l.moved)
	l.moved = make(chan struct{})
}

func (l *logs) Names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.names)
}

func (l *logs) Read(name string, from uint64, out []Entry) (entries []Entry, next, lost uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if first := l.first[name]; from < first {
		lost, from = first-from, first
	}
	for _, text := range l.lines[name][min(from-l.first[name], uint64(len(l.lines[name]))):] {
		out = append(out, Entry{UnixNanos: 1767225600_123456789, Stderr: strings.HasPrefix(text, "!"), Text: []byte(text)})
		from++
	}
	return out, from, lost
}

func (l *logs) Moved() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moved
}

func TestFormats(t *testing.T) {
	e := Entry{UnixNanos: 1767225600_123456789, Stderr: true, Text: []byte("a \"b\"\n\\ é\xff\x1b")}
	const (
		jsonText   = `{"time":"2026-01-01T00:00:00.123456Z","host":"board","service":"pod/web/web","stream":"stderr","message":"a \"b\"\u000a\\ é` + "\ufffd" + `\u001b"}`
		syslogText = "<29>1 2026-01-01T00:00:00.123456Z board pod/web/web - - - a \"b\" \\ é\xff\x1b"
	)
	for _, tt := range []struct {
		sink Sink
		want string
	}{
		{Sink{Network: "tcp"}, jsonText + "\n"},
		{Sink{Network: "udp"}, jsonText},
		{Sink{Network: "udp", Format: RFC5424, Counted: true}, syslogText},
		{Sink{Network: "tcp", Format: RFC5424}, syslogText + "\n"},
		{Sink{Network: "tcp", Format: RFC5424, Counted: true}, strconv.Itoa(len(syslogText)) + " " + syslogText},
	} {
		if got := string(tt.sink.record(nil, "board", "pod/web/web", e)); got != tt.want {
			t.Errorf("%+v: %q; want %q", tt.sink, got, tt.want)
		}
	}
	if got := string(appendSyslog(nil, "", "ü", Entry{})); !strings.Contains(got, " - __ - - - ") {
		t.Errorf("a node without a name: %q", got)
	}
}

func FuzzJSON(f *testing.F) {
	f.Add("a\x00\"\\\u2028\xff")
	f.Fuzz(func(t *testing.T, s string) {
		b := appendJSON(nil, s, s, Entry{Text: []byte(s)})
		var got map[string]string
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%q of %q: %v", b, s, err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); len(got["message"]) < len(want) && got["message"] != want {
			t.Errorf("message %q; want %q", got["message"], want)
		}
	})
}

// forward runs a forwarder until the test ends.
func forward(t *testing.T, s Sink, l Logs) *said {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	said := &said{}
	f := &Forwarder{Sink: s, Logs: l, Host: func() string { return "board" }, Say: said.say}
	go func() { defer close(ended); f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Error("Run goes on after the end of its context")
		}
	})
	return said
}

type said struct {
	mu    sync.Mutex
	lines []string
}

func (s *said) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func accept(t *testing.T, l net.Listener) (net.Conn, *bufio.Reader) {
	t.Helper()
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(30 * time.Second))
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	return c, bufio.NewReader(c)
}

func wantMessage(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	line, err := r.ReadString('\n')
	var got map[string]string
	if err != nil || json.Unmarshal([]byte(line), &got) != nil || got["message"] != want {
		t.Fatalf("received %q, %v; want the message %q", line, err, want)
	}
}

// TestReceiverComesAndGoes: nothing that was kept is lost to a receiver that is
// not there, nor sent twice to one that was.
func TestReceiverComesAndGoes(t *testing.T) {
	first := listen(t, "127.0.0.1:0")
	address := first.Addr().String()
	first.Close()
	l := newLogs(100)
	l.write("web", "before")
	said := forward(t, Sink{Network: "tcp", Address: address}, l)
	time.Sleep(300 * time.Millisecond) // refused
	second := listen(t, address)
	c, r := accept(t, second)
	wantMessage(t, r, "before")
	l.write("db", "one")
	wantMessage(t, r, "one")
	c.Close()
	time.Sleep(300 * time.Millisecond)
	l.write("web", "while away")
	_, r = accept(t, second)
	wantMessage(t, r, "while away")
	l.write("web", "after")
	wantMessage(t, r, "after")
	said.mu.Lock()
	defer said.mu.Unlock()
	if text := strings.Join(said.lines, "\n"); !strings.Contains(text, "connection refused") || !strings.Contains(text, "Logs reach tcp://") {
		t.Errorf("said %q; want that it was refused, and that it reaches the sink", text)
	}
}

// TestSlowReceiver loses what was overwritten, and says so.
func TestSlowReceiver(t *testing.T) {
	server := listen(t, "127.0.0.1:0")
	l := newLogs(10)
	for i := range 50 {
		l.write("web", fmt.Sprint(i))
	}
	forward(t, Sink{Network: "tcp", Address: server.Addr().String()}, l)
	_, r := accept(t, server)
	wantMessage(t, r, "40 lines were lost here: they came faster than they could be sent")
	for i := 40; i < 50; i++ {
		wantMessage(t, r, fmt.Sprint(i))
	}
}

func TestTwoSinks(t *testing.T) {
	l := newLogs(100)
	var readers []*bufio.Reader
	for range 2 {
		server := listen(t, "127.0.0.1:0")
		forward(t, Sink{Network: "tcp", Address: server.Addr().String()}, l)
		_, r := accept(t, server)
		readers = append(readers, r)
	}
	l.write("web", "to both")
	for _, r := range readers {
		wantMessage(t, r, "to both")
	}
}

func TestSyslogOverTCP(t *testing.T) {
	server := listen(t, "127.0.0.1:0")
	l := newLogs(10)
	l.write("web", "one")
	l.write("web", "!two")
	forward(t, Sink{Network: "tcp", Address: server.Addr().String(), Format: RFC5424, Counted: true}, l)
	_, r := accept(t, server)
	for _, want := range []string{"<30>1 2026-01-01T00:00:00.123456Z board web - - - one", "<29>1 2026-01-01T00:00:00.123456Z board web - - - !two"} {
		length, err := r.ReadString(' ')
		n, err2 := strconv.Atoi(strings.TrimSuffix(length, " "))
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(r, b); err != nil || string(b) != want {
			t.Errorf("received %q, %v; want %q", b, err, want)
		}
	}
}

func TestUDP(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	_ = server.SetReadDeadline(time.Now().Add(30 * time.Second))
	l := newLogs(10)
	l.write("web", "one")
	l.write("web", "two")
	forward(t, Sink{Network: "udp", Address: server.LocalAddr().String()}, l)
	for _, want := range []string{"one", "two"} {
		b := make([]byte, 2048)
		n, _, err := server.ReadFrom(b)
		if err != nil || !strings.Contains(string(b[:n]), `"message":"`+want+`"}`) {
			t.Errorf("received %q, %v; want the message %q", b[:n], err, want)
		}
	}
}

// TestRefusedDatagrams: a datagram to a port that nobody has can be sent, and is
// refused later. It counted as received; that the sink is reached, and that it is
// not, was said in turn, and each such line was the next one to be sent.
func TestRefusedDatagrams(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := server.LocalAddr().String()
	server.Close()
	l := newLogs(100)
	l.write("web", "one")
	said := forward(t, Sink{Network: "udp", Address: address}, l)
	time.Sleep(3500 * time.Millisecond) // three tries
	said.mu.Lock()
	lines := slices.Clone(said.lines)
	said.mu.Unlock()
	if len(lines) != 1 || !strings.Contains(lines[0], "connection refused") {
		t.Errorf("said %q; want once that it is refused", lines)
	}
	if server, err = net.ListenPacket("udp", address); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	_ = server.SetReadDeadline(time.Now().Add(30 * time.Second))
	b := make([]byte, 2048)
	n, _, err := server.ReadFrom(b)
	if err != nil || !strings.Contains(string(b[:n]), `"message":"one"}`) {
		t.Errorf("received %q, %v; want what was kept", b[:n], err)
	}
}

// TestFloodLeavesRoomForOthers: the logs were read from the first on until a
// batch was full, and two that flooded kept all others from ever being sent.
func TestFloodLeavesRoomForOthers(t *testing.T) {
	server := listen(t, "127.0.0.1:0")
	l := newLogs(1 << 30)
	flood := strings.Repeat("x", 4096)
	for range 200 {
		l.write("a", flood)
		l.write("b", flood)
	}
	l.write("c", "hear me")
	forward(t, Sink{Network: "tcp", Address: server.Addr().String()}, piecemeal{l})
	_, r := accept(t, server)
	for n := 0; n < 100; n++ {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"message":"hear me"`) {
			return
		}
	}
	t.Error("100 lines of others came before the one of c; want it in its turn")
}

// TestLogThatBeginsAnew: of a log that was forgotten and is there again, nothing
// is missed.
func TestLogThatBeginsAnew(t *testing.T) {
	f := &Forwarder{Logs: newestLogs{}, places: map[string]uint64{"web": 100}}
	f.take("board", "web")
	if len(f.packets) != 1 || f.packets[0].next != 1 {
		t.Errorf("took %+v; want the one line, and to go on with the next", f.packets)
	}
	f.forget(nil)
	if len(f.places) != 0 {
		t.Errorf("places are kept in logs that are gone: %v", f.places)
	}
}

// newestLogs have a log of one line.
type newestLogs struct{ *logs }

func (newestLogs) Read(_ string, from uint64, out []Entry) ([]Entry, uint64, uint64) {
	if from > 0 {
		return out, 1, 0
	}
	return append(out, Entry{Text: []byte("one")}), 1, 0
}

// piecemeal reads some kilobytes at a time, as the rings are.
type piecemeal struct{ *logs }

func (p piecemeal) Read(name string, from uint64, out []Entry) (entries []Entry, next, lost uint64) {
	all, _, lost := p.logs.Read(name, from, nil)
	all = all[:min(len(all), 4)]
	return append(out, all...), from + uint64(len(all)), lost
}
