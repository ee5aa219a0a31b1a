// Package logsink forwards the node's logs to other machines: as JSON lines or
// as syslog (RFC 5424), over TCP or UDP.
package logsink

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	entries []Entry
	packets []packet
	buffer  []byte
}

// packet is a part of the buffer, and where its log is after it.
type packet struct {
	end  int
	log  string
	next uint64
}

// Run forwards until ctx ends.
func (f *Forwarder) Run(ctx context.Context) {
	f.places = make(map[string]uint64)
	var said string
	for pause := retryMin; ctx.Err() == nil; pause = min(2*pause, retryMax) {
		sent, err := f.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if sent {
			pause, said = retryMin, ""
		}
		if text := err.Error(); text != said {
			said = text
			f.Say("Logs do not reach %s: %v; trying again.", f.Sink, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// session connects and forwards until something fails. It reports whether
// anything was sent.
func (f *Forwarder) session(ctx context.Context) (sent bool, err error) {
	dialer := net.Dialer{Timeout: dialTime, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}}
	conn, err := dialer.DialContext(ctx, f.Sink.Network, f.Sink.Address)
	if err != nil {
		return false, plain(err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	closed := watch(conn, f.Sink.Network)
	for {
		moved := f.Logs.Moved() // before the look: what comes after it is not missed
		more, err := f.send(conn)
		if err != nil {
			return sent, plain(err)
		}
		if more {
			if !sent {
				f.Say("Logs reach %s.", f.Sink)
			}
			sent = true
			continue
		}
		select {
		case <-ctx.Done():
			return sent, ctx.Err()
		case <-closed:
			return sent, errors.New("it has closed the connection")
		case <-moved:
		}
		select {
		case <-ctx.Done():
			return sent, ctx.Err()
		case <-time.After(gather):
		}
	}
}

// watch returns a channel that is closed when the receiver hangs up: a write
// would succeed once more, into nowhere.
func watch(conn net.Conn, network string) <-chan struct{} {
	closed := make(chan struct{})
	if network != "tcp" {
		return closed // a datagram has no end; nil would do as well
	}
	go func() {
		defer close(closed)
		var b [512]byte
		for {
			if _, err := conn.Read(b[:]); err != nil {
				return
			}
		}
	}()
	return closed
}

// send sends what there is of each log, and reports whether there was any.
func (f *Forwarder) send(conn net.Conn) (more bool, err error) {
	host := f.Host()
	f.buffer, f.packets = f.buffer[:0], f.packets[:0]
	for _, name := range f.Logs.Names() {
		if len(f.buffer) >= maxBatch {
			break
		}
		var next, lost uint64
		f.entries, next, lost = f.Logs.Read(name, f.places[name], f.entries[:0])
		if lost > 0 {
			text := fmt.Appendf(nil, "%d lines were lost here: they came faster than they could be sent", lost)
			f.add(host, name, Entry{UnixNanos: at(f.entries), Stderr: true, Text: text}, next-uint64(len(f.entries)))
		}
		for i, e := range f.entries {
			f.add(host, name, e, next-uint64(len(f.entries)-1-i))
		}
	}
	return len(f.packets) > 0, f.write(conn)
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
	if err := conn.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
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
