package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func (d *decoder) logs(v value) Logs {
	var out Logs
	o := d.object(v, "sinks")
	for _, item := range d.list(o.get("sinks")) {
		s := d.object(item, "url", "format")
		sink := scalar(d, d.need(s, "url"), LogSink{}, parseSinkURL)
		syslog := sink.Transport == SinkSyslogTCP || sink.Transport == SinkSyslogUDP
		format := s.get("format")
		if syslog {
			sink.Format = SinkRFC5424
		}
		sink.Format = scalar(d, format, sink.Format, oneOf[SinkFormat](sinkFormats()))
		if syslog && sink.Format != SinkRFC5424 {
			d.errorf(value{node: target(format.node), path: format.path},
				"a %v sink carries rfc5424; for json use tcp:// or udp://", sink.Transport)
		}
		out.Sinks = append(out.Sinks, sink)
	}
	return out
}

func parseSinkURL(s string) (LogSink, error) {
	scheme, address, ok := strings.Cut(s, "://")
	i := slices.Index(sinkSchemes(), scheme)
	if !ok || i < 0 || parseHostPort(address) != nil {
		return LogSink{}, fmt.Errorf("want %s://host:port; got %s", strings.Join(sinkSchemes(), "|"), quote(s))
	}
	return LogSink{Transport: SinkTransport(i), Address: address}, nil
}

func (d *decoder) watchdog(v value) Watchdog {
	o := d.object(v, "timeout_secs", "disabled")
	return Watchdog{
		// Below 2 s an ordinary stall of an SD card would reset the board.
		Timeout:  time.Duration(d.integer(o.get("timeout_secs"), 0, 2, 3600)) * time.Second,
		Disabled: d.boolean(o.get("disabled"), false),
	}
}

func (d *decoder) volumes(v value) Volumes {
	o := d.object(v, "state_size", "ephemeral_size")
	return Volumes{
		StateSize:     scalar(d, o.get("state_size"), 0, parseVolumeSize),
		EphemeralSize: scalar(d, o.get("ephemeral_size"), 0, parseVolumeSize),
	}
}

// parseVolumeSize asks for what an ext4 with a journal needs.
func parseVolumeSize(s string) (ByteSize, error) {
	size, err := parseSize(s)
	if err == nil && (size < 16<<20 || size%(1<<20) != 0) {
		return 0, fmt.Errorf("want a whole number of MiB, 16MiB or more; got %s", quote(s))
	}
	return size, err
}
