package main

import (
	"context"
	"slices"
	"sync/atomic"

	"machined/init/config"
	"machined/init/logsink"
	"machined/init/supervise/logring"
)

// sinks are the receivers of logs that the config names, and what ends each.
type sinks struct {
	ends map[config.LogSink]context.CancelFunc
	host atomic.Pointer[string] // what the node calls itself
}

// startSinks forwards logs to what the config names, and no more to what only
// another one has named. A sink that is in both keeps its place.
func (n *node) startSinks() {
	host := n.hostname()
	n.sinks.host.Store(&host)
	of := n.loaded.Config.Machine.Logs.Sinks
	for s, end := range n.sinks.ends {
		if !slices.Contains(of, s) {
			end()
			delete(n.sinks.ends, s)
		}
	}
	if n.sinks.ends == nil {
		n.sinks.ends = make(map[config.LogSink]context.CancelFunc)
	}
	for _, s := range of {
		if n.sinks.ends[s] != nil {
			continue
		}
		ctx, end := context.WithCancel(context.Background())
		n.sinks.ends[s] = end
		f := logsink.Forwarder{
			Sink: sinkOf(s), Logs: ringLogs{n.rings}, Host: func() string { return *n.sinks.host.Load() }, Say: n.say("logs"),
		}
		n.spawn("logs", func() { f.Run(ctx) })
	}
}

func sinkOf(s config.LogSink) logsink.Sink {
	out := logsink.Sink{Network: "tcp", Address: s.Address}
	switch s.Transport {
	case config.SinkUDP, config.SinkSyslogUDP:
		out.Network = "udp"
	case config.SinkSyslogTCP:
		out.Counted = true
	case config.SinkTCP:
	}
	if s.Format == config.SinkRFC5424 {
		out.Format = logsink.RFC5424
	}
	return out
}

// ringLogs are the node's rings in the words of logsink.
type ringLogs struct{ *logring.Set }

func (l ringLogs) Names() []string { return l.IDs() }

func (l ringLogs) Read(name string, from uint64, out []logsink.Entry) (entries []logsink.Entry, next, lost uint64) {
	ring := l.Find(name)
	if ring == nil {
		return out, from, 0
	}
	lines, next, lost := ring.Read(from, logBatch)
	for _, e := range lines {
		out = append(out, logsink.Entry{UnixNanos: e.Time, Stderr: e.Stream == logring.Stderr, Text: []byte(e.Text)})
	}
	return out, next, lost
}

var _ logsink.Logs = ringLogs{}
