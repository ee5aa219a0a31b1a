// Package logsink forwards the node's logs to other machines: as JSON lines or
// as syslog (RFC 5424), over TCP or UDP.
package logsink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"time"
)

// Entry is a line of a log.
type Entry struct {
	UnixNanos int64
	Stderr    bool
	Text      []byte // valid until the next Read
}

// Logs are what is forwarded. Positions count the lines of a log from its first.
type Logs interface {
	// Names returns the logs that there are.
	Names() []string
	// Read appends lines of a log from a position on, some kilobytes at most, and
	// returns the position after them and how many were not kept before the
	// first.
	Read(name string, from uint64, out []Entry) (entries []Entry, next, lost uint64)
	// Moved returns a channel that is closed at the next line of any log.
	Moved() <-chan struct{}
}

// Format is how a record is written.
type Format uint8

const (
	JSON Format = iota
	RFC5424
)

// Sink is a receiver.
type Sink struct {
	Network string // tcp or udp
	Address string // host:port
	Format  Format
	// Counted frames records over TCP with their length (RFC 6587, section
	// 3.4.1). Without it a record is a line.
	Counted bool
}

// String names the sink for messages.
func (s Sink) String() string { return s.Network + "://" + s.Address }

const (
	dialTime  = 10 * time.Second
	writeTime = 10 * time.Second
	// gather is the pause in which lines come together in one packet.
	gather = 200 * time.Millisecond
	// A receiver that is not there is tried again after retryMin, doubled up to
	// retryMax.
	retryMin, retryMax = time.Second, time.Minute
	// A connection that has stood for steady is one that works. One that ends
	// sooner is tried again ever more slowly, or what is said of it, which is
	// forwarded, too, would keep it going for ever.
	steady = 10 * time.Second
	// maxBatch bounds what is formatted before it is sent, in bytes.
	maxBatch = 32 << 10
)

// Forwarder sends all logs to one sink. It keeps its place in each log, and what
// could not be sent is sent when the sink is back, as far as the logs have kept
// it.
type Forwarder struct {
	Sink Sink
	Logs Logs
	// Host returns the name of the node.
	Host func() string
	// Say tells when the sink goes and comes.
	Say func(format string, args ...any)

	places  map[string]uint64
	before  map[string]uint64 // places before the last batch
	sent    time.Time         // when that was handed over
	first   int               // of the logs: whose turn it is
	said    string            // the last word on the sink
	entries []Entry
	packets []packet
	buffer  []byte
}

// reaches is the last word on a sink that takes the logs.
const reaches = "reaches"

// packet is a part of the buffer, and where its log is after it.
type packet struct {
	end  int
	log  string
	next uint64
}

// Run forwards until ctx ends.
func (f *Forwarder) Run(ctx context.Context) {
	f.places, f.before, f.said = make(map[string]uint64), make(map[string]uint64), ""
	for pause := retryMin; ctx.Err() == nil; pause = min(2*pause, retryMax) {
		stood, err := f.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if stood >= steady {
			pause = retryMin
		}
		if text := err.Error(); text != f.said {
			f.said = text
			f.Say("Logs do not reach %s: %v; trying again.", f.Sink, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// session connects and forwards until something fails. It returns how long the
// connection stood.
func (f *Forwarder) session(ctx context.Context) (stood time.Duration, err error) {
	dialer := net.Dialer{Timeout: dialTime, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}}
	conn, err := dialer.DialContext(ctx, f.Sink.Network, f.Sink.Address)
	if err != nil {
		return 0, plain(err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	began := time.Now()
	err = f.forward(ctx, conn, watch(conn))
	if !errors.Is(err, errClosed) && time.Since(f.sent) < gather {
		// It refuses: what has just been sent has reached nobody.
		maps.Copy(f.places, f.before)
	}
	return time.Since(began), plain(err)
}

// errClosed says that the receiver has hung up in order: what it was sent, it has
// read.
var errClosed = errors.New("it has closed the connection")

// forward sends what there is, and what comes, until something fails.
func (f *Forwarder) forward(ctx context.Context, conn net.Conn, closed <-chan error) error {
	proven := false
	wait := func(until <-chan struct{}, pause <-chan time.Time) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-closed:
			return err
		case <-until:
		case <-pause:
		}
		return nil
	}
	for {
		moved := f.Logs.Moved() // before the look: what comes after it is not missed
		more, err := f.send(conn)
		switch {
		case err != nil:
			return err
		case more && !proven:
			// To whoever refuses it, too, the first batch can be handed over.
			if err := wait(nil, time.After(gather)); err != nil {
				return err
			}
			proven = true
			if f.said != reaches {
				f.said = reaches
				f.Say("Logs reach %s.", f.Sink)
			}
			continue
		case more:
			continue
		}
		if err := wait(moved, nil); err != nil {
			return err
		}
		if err := wait(nil, time.After(gather)); err != nil {
			return err
		}
	}
}

// watch returns a channel that tells when the receiver hangs up, or that nobody
// takes datagrams there: a write would succeed once more, into nowhere.
func watch(conn net.Conn) <-chan error {
	closed := make(chan error, 1)
	go func() {
		var b [512]byte
		for {
			if _, err := conn.Read(b[:]); errors.Is(err, io.EOF) {
				closed <- errClosed
				return
			} else if err != nil {
				closed <- err
				return
			}
		}
	}()
	return closed
}

// send sends what there is of each log, and reports whether there was any. The
// logs take turns, so that one that floods keeps no other waiting.
func (f *Forwarder) send(conn net.Conn) (more bool, err error) {
	host, names := f.Host(), f.Logs.Names()
	f.forget(names)
	f.buffer, f.packets = f.buffer[:0], f.packets[:0]
	for i := range names {
		turn := (f.first + i) % len(names)
		if len(f.buffer) >= maxBatch {
			f.first = turn
			break
		}
		f.take(host, names[turn])
	}
	return len(f.packets) > 0, f.write(conn)
}

// forget drops the places in logs that are not there any more.
func (f *Forwarder) forget(names []string) {
	if len(f.places) > len(names) {
		maps.DeleteFunc(f.places, func(name string, _ uint64) bool { return !slices.Contains(names, name) })
	}
}

// take formats the next lines of a log.
func (f *Forwarder) take(host, name string) {
	var next, lost uint64
	f.entries, next, lost = f.Logs.Read(name, f.places[name], f.entries[:0])
	if next < f.places[name] { // another log of that name
		f.entries, next, lost = f.Logs.Read(name, 0, f.entries[:0])
	}
	if lost > 0 {
		text := fmt.Appendf(nil, "%d lines were lost here: they came faster than they could be sent", lost)
		f.add(host, name, Entry{UnixNanos: at(f.entries), Stderr: true, Text: text}, next-uint64(len(f.entries)))
	}
	for i, e := range f.entries {
		f.add(host, name, e, next-uint64(len(f.entries)-1-i))
	}
}

func at(entries []Entry) int64 {
	if len(entries) > 0 {
		return entries[0].UnixNanos
	}
	return time.Now().UnixNano()
}

// add formats one record.
func (f *Forwarder) add(host, name string, e Entry, next uint64) {
	f.buffer = f.Sink.record(f.buffer, host, name, e)
	f.packets = append(f.packets, packet{len(f.buffer), name, next})
}

// write sends the buffer: at once over a stream, a record a datagram else. The
// place in a log moves with what has been handed over.
func (f *Forwarder) write(conn net.Conn) error {
	if len(f.packets) == 0 {
		return nil
	}
	clear(f.before)
	for _, p := range f.packets {
		f.before[p.log] = f.places[p.log]
	}
	f.sent = time.Now()
	if err := conn.SetWriteDeadline(f.sent.Add(writeTime)); err != nil {
		return err
	}
	if f.Sink.Network == "tcp" {
		if _, err := conn.Write(f.buffer); err != nil {
			return err
		}
		for _, p := range f.packets {
			f.places[p.log] = p.next
		}
		return nil
	}
	begin := 0
	for _, p := range f.packets {
		if _, err := conn.Write(f.buffer[begin:p.end]); err != nil {
			return err
		}
		f.places[p.log], begin = p.next, p.end
	}
	return nil
}

// plain takes our own port out of an error, which differs from try to try.
func plain(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
