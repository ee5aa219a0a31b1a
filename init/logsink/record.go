package logsink

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// record appends one record, framed for the sink.
func (s Sink) record(b []byte, host, name string, e Entry) []byte {
	switch {
	case s.Format == JSON:
		b = appendJSON(b, host, name, e)
	case s.Network == "tcp" && s.Counted:
		message := appendSyslog(nil, host, name, e)
		b = strconv.AppendInt(b, int64(len(message)), 10)
		return append(append(b, ' '), message...)
	default:
		b = appendSyslog(b, host, name, e)
	}
	if s.Network == "tcp" {
		b = append(b, '\n')
	}
	return b
}

// appendTime is RFC 3339 with microseconds, which RFC 5424 allows at most.
func appendTime(b []byte, unixNanos int64) []byte {
	return time.Unix(0, unixNanos).UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
}

func stream(e Entry) string {
	if e.Stderr {
		return "stderr"
	}
	return "stdout"
}

func appendJSON(b []byte, host, name string, e Entry) []byte {
	b = append(b, `{"time":"`...)
	b = appendTime(b, e.UnixNanos)
	b = append(b, `","host":`...)
	b = appendString(b, host)
	b = append(b, `,"service":`...)
	b = appendString(b, name)
	b = append(b, `,"stream":"`...)
	b = append(b, stream(e)...)
	b = append(b, `","message":`...)
	b = appendString(b, string(e.Text))
	return append(b, '}')
}

// appendString writes a JSON string (RFC 8259, section 7). What is not UTF-8
// becomes U+FFFD.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ' || r == 0x7f:
			b = append(b, `\u00`...)
			b = append(b, hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// Priorities are facility daemon (3) with the severities informational for
// stdout and notice for stderr, where many programs write all of their log.
const stdoutPriority, stderrPriority = "<30>", "<29>"

// appendSyslog writes a message of RFC 5424: no process id, no message id, no
// structured data.
func appendSyslog(b []byte, host, name string, e Entry) []byte {
	if e.Stderr {
		b = append(b, stderrPriority...)
	} else {
		b = append(b, stdoutPriority...)
	}
	b = append(b, "1 "...)
	b = appendTime(b, e.UnixNanos)
	b = append(b, ' ')
	b = appendToken(b, host, 255)
	b = append(b, ' ')
	b = appendToken(b, name, 48)
	b = append(b, " - - - "...)
	for _, c := range e.Text {
		if c == '\n' || c == 0 { // would end the record for many receivers
			c = ' '
		}
		b = append(b, c)
	}
	return b
}

// appendToken writes what RFC 5424 calls PRINTUSASCII, "-" for nothing.
func appendToken(b []byte, s string, most int) []byte {
	if s == "" {
		return append(b, '-')
	}
	for i := 0; i < len(s) && i < most; i++ {
		if c := s[i]; c > ' ' && c < 0x7f {
			b = append(b, c)
		} else {
			b = append(b, '_')
		}
	}
	return b
}
