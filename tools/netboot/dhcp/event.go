package dhcp

import (
	"context"
	"log/slog"
	"net/netip"
	"time"
)

// Kind is a step of a board's boot.
type Kind string

// The kinds of Event.
const (
	Discovered Kind = "discover"  // a board looks for servers
	Offered    Kind = "offer"     // it was offered an address, a target or both
	Leased     Kind = "lease"     // it has the address
	Booting    Kind = "boot"      // it confirmed the target, at port 67 or 4011
	Held       Kind = "held"      // Boot offers it nothing
	Looped     Kind = "loop"      // it goes in circles, and is offered nothing for now
	Refused    Kind = "refused"   // DHCPNAK
	Exhausted  Kind = "exhausted" // no address is free
	Declined   Kind = "decline"   // it found its address in use
	Released   Kind = "release"
	Informed   Kind = "inform"    // it asked for settings alone
	Elsewhere  Kind = "elsewhere" // it chose another server's offer, where this should be the only one
	Foreign    Kind = "foreign"   // a relay of another network asks
	Damaged    Kind = "damaged"   // not a packet of DHCP
	Failed     Kind = "failed"
)

// Event is a step, for a log or a registry of boards.
type Event struct {
	Time    time.Time
	Kind    Kind
	Client  Client
	Address netip.Addr // the zero value where it is about none
	Target  Target     // what the client was offered; the zero value for nothing
	Port    uint16     // 67 or 4011
	Detail  string     // for people
	Err     error      // of Failed and Damaged
}

// Logger returns a function for Config.OnEvent that writes a line for each event.
func Logger(l *slog.Logger) func(Event) {
	return func(e Event) {
		level := slog.LevelInfo
		switch e.Kind {
		case Looped, Refused, Exhausted, Declined, Elsewhere:
			level = slog.LevelWarn
		case Failed:
			level = slog.LevelError
		case Foreign, Damaged:
			level = slog.LevelDebug
		}
		var attrs []slog.Attr
		add := func(key, value string) {
			if value != "" {
				attrs = append(attrs, slog.String(key, value))
			}
		}
		if e.Client.Stage != "" {
			add("mac", e.Client.MAC.String())
			add("stage", string(e.Client.Stage))
		}
		if s := e.Client.Stage; s != "" && s != Linux {
			add("arch", e.Client.Arch.String())
		}
		add("uuid", e.Client.UUID)
		add("serial", e.Client.Serial)
		add("host", e.Client.Hostname)
		if e.Address.IsValid() {
			add("address", e.Address.String())
		}
		add("target", e.Target.name(e.Client.Stage))
		if e.Port == pxePort {
			attrs = append(attrs, slog.Int("port", pxePort))
		}
		add("detail", e.Detail)
		if e.Err != nil {
			add("error", e.Err.Error())
		}
		l.LogAttrs(context.Background(), level, "dhcp "+string(e.Kind), attrs...)
	}
}
