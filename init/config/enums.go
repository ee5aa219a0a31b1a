package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ContainerdID is the id of the runtime that machined itself runs. A service
// may depend on it and cannot declare it.
const ContainerdID = "containerd"

// RestartPolicy says what follows when a service ends.
type RestartPolicy uint8

const (
	// RestartOnFailure restarts after a signal or a status other than 0. It is
	// the default, so that a task that ends well is not run for ever.
	RestartOnFailure RestartPolicy = iota
	// RestartAlways restarts however the service ended.
	RestartAlways
	// RestartNever runs the service once a boot.
	RestartNever
)

// String returns the word that the config uses.
func (p RestartPolicy) String() string {
	return name(restartNames(), int(p))
}

func restartNames() []string { return []string{"on_failure", "always", "never"} }

// Gate is a condition of the whole node that a service waits for.
type Gate uint8

const (
	// GateTime waits until the clock is synchronised.
	GateTime Gate = iota
	// GateNetwork waits until an address and a default route exist.
	GateNetwork
)

// String returns the word that the config uses.
func (g Gate) String() string {
	return name(gateNames(), int(g))
}

func gateNames() []string { return []string{"time", "network"} }

// ProbeKind is how a Probe asks.
type ProbeKind uint8

const (
	ProbeHTTP ProbeKind = iota
	ProbeTCP
	ProbeExec
	ProbeGRPC
)

// String returns the word that the config uses.
func (k ProbeKind) String() string {
	return name(probeNames(), int(k))
}

func probeNames() []string { return []string{"http", "tcp", "exec", "grpc"} }

// SinkTransport is how log records travel.
type SinkTransport uint8

const (
	// SinkTCP sends a record a line.
	SinkTCP SinkTransport = iota
	// SinkUDP sends a record a datagram.
	SinkUDP
	// SinkSyslogTCP sends with octet counting (RFC 6587, 3.4.1).
	SinkSyslogTCP
	// SinkSyslogUDP sends a record a datagram (RFC 5426).
	SinkSyslogUDP
)

// String returns the URL scheme that the config uses.
func (t SinkTransport) String() string {
	return name(sinkSchemes(), int(t))
}

func sinkSchemes() []string { return []string{"tcp", "udp", "syslog+tcp", "syslog+udp"} }

// SinkFormat is how a log record is written.
type SinkFormat uint8

const (
	SinkJSON SinkFormat = iota
	// SinkRFC5424 is the syslog protocol's format (RFC 5424, 6).
	SinkRFC5424
)

// String returns the word that the config uses.
func (f SinkFormat) String() string {
	return name(sinkFormats(), int(f))
}

func sinkFormats() []string { return []string{"json", "rfc5424"} }

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return strconv.Itoa(i)
}

// ByteSize is a number of bytes.
type ByteSize uint64

// String returns the size in the largest unit that divides it.
func (b ByteSize) String() string {
	shift, unit := uint(0), ""
	for _, u := range sizeUnits() {
		if b != 0 && b&(1<<u.shift-1) == 0 {
			shift, unit = u.shift, u.name
		}
	}
	return strconv.FormatUint(uint64(b)>>shift, 10) + unit
}

type sizeUnit struct {
	name  string
	shift uint
}

func sizeUnits() []sizeUnit {
	return []sizeUnit{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}}
}

// parseSize reads a whole number of bytes, KiB, MiB, GiB or TiB. MB and M are
// refused: half of the world reads them as powers of ten.
func parseSize(s string) (ByteSize, error) {
	number, shift := s, uint(0)
	for _, u := range sizeUnits() {
		if n, ok := strings.CutSuffix(s, u.name); ok {
			number, shift = strings.TrimSpace(n), u.shift
		}
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("want a size such as 256MiB (units KiB, MiB, GiB, TiB); got %s", quote(s))
	}
	return ByteSize(n << shift), nil
}

// Firmware is what a Raspberry Pi's firmware can do for a trial boot.
type Firmware uint8

const (
	// FirmwareAuto is found out with the first trial that leaves no trace.
	FirmwareAuto Firmware = iota
	// FirmwareTryboot has the one-shot flag.
	FirmwareTryboot
	// FirmwareFlipFirst ignores it: config.txt names a new slot from its first
	// boot on, and machined counts the attempts.
	FirmwareFlipFirst
)

// String returns the word that the config uses.
func (f Firmware) String() string { return name(firmwareNames(), int(f)) }

func firmwareNames() []string { return []string{"auto", "tryboot", "flip_first"} }
