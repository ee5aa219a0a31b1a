package tftp

import (
	"context"
	"log/slog"
	"net/netip"
	"time"
)

// Kind is a step of a transfer.
type Kind string

// The kinds of Event. A transfer has one Started, then any number of Progress,
// then one of Done, Aborted and Failed. A request that no transfer follows has
// Refused alone.
const (
	Started  Kind = "started"
	Progress Kind = "progress"
	Done     Kind = "done"
	Aborted  Kind = "aborted"
	Failed   Kind = "failed"
	Refused  Kind = "refused"
)

// Event is a step of a transfer, for a log or a registry of boards.
type Event struct {
	Kind   Kind
	Client Client
	Name   string // as the client asked for it
	Bytes  int64  // confirmed by the client
	Total  int64  // size of the file, in bytes
	// Normal is set at Aborted for the ways in which firmware looks whether a
	// file exists and how long it is: EDK2 asks for tsize and ends with error 8,
	// the Raspberry Pi stops after block 1.
	Normal bool
	Reason string // for people: why it ended, or the terms at Started
	Took   time.Duration
	Err    error // of Failed and Refused
}

// Logger returns a function for Options.OnEvent that writes a line for each
// event but Progress. What is normal at a boot is no warning, and a file that is
// not there is none either: firmware asks for many that are optional.
func Logger(l *slog.Logger) func(Event) {
	return func(e Event) {
		level := slog.LevelInfo
		switch e.Kind {
		case Progress:
			level = slog.LevelDebug
		case Failed:
			level = slog.LevelWarn
		}
		attrs := []slog.Attr{slog.String("client", e.Client.Addr.String()), slog.String("file", e.Name),
			slog.Int64("bytes", e.Bytes), slog.Int64("total", e.Total)}
		if e.Reason != "" {
			attrs = append(attrs, slog.String("reason", e.Reason))
		}
		if e.Took > 0 {
			attrs = append(attrs, slog.Duration("took", e.Took))
		}
		if e.Kind == Aborted {
			attrs = append(attrs, slog.Bool("normal", e.Normal))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.String("error", e.Err.Error()))
		}
		l.LogAttrs(context.Background(), level, "tftp "+string(e.Kind), attrs...)
	}
}

// Client is who asks.
type Client struct {
	Addr netip.AddrPort
	// LocalIP is the server's address that the client sent its request to. It is
	// the zero value where the system does not tell.
	LocalIP netip.Addr
}
