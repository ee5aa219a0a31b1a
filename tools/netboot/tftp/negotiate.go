package tftp

import (
	"strconv"
	"strings"
	"time"
)

const (
	defaultBlockSize = 512 // RFC 1350
	minBlockSize     = 8   // RFC 2348
	maxBlockSize     = 65464
	maxWindow        = 64

	// maxTimeout is the longest that a client can have the server wait for each
	// ACK, in seconds. RFC 2349 goes to 255 and lets a server leave the option
	// out; with five retries that would hold a session for 25 minutes.
	maxTimeout = 30

	// overhead is what IPv4 without options, UDP and TFTP take of an MTU. A
	// larger block would be sent in fragments, which boot ROMs do not join.
	overhead = 20 + 8 + headerSize
)

// terms are what both sides keep to during a transfer.
type terms struct {
	blockSize int           // bytes
	window    int           // blocks between two ACKs, RFC 7440
	timeout   time.Duration // of the client, RFC 2349; 0 is the server's own
	sizeAsked bool          // tsize, RFC 2349
	oack      []option      // what is confirmed; empty has the transfer begin with DATA
}

// negotiate decides about a request's options. Nothing is confirmed that was
// not asked for, unknown options and values out of range are left out as RFC
// 2347 wants, and the order and spelling are the client's. mtu is the link's, in
// bytes; 0 is unknown and has Ethernet's.
func negotiate(options []option, size int64, mtu int) terms {
	if mtu <= 0 {
		mtu = 1500
	}
	t, seen := terms{blockSize: defaultBlockSize, window: 1}, map[string]bool{}
	for _, o := range options {
		name := strings.ToLower(o.name)
		n, err := strconv.ParseUint(o.value, 10, 63)
		if err != nil || seen[name] {
			continue
		}
		switch {
		case name == "blksize" && n >= minBlockSize && n <= maxBlockSize:
			t.blockSize = min(int(n), max(mtu-overhead, minBlockSize))
			o.value = strconv.Itoa(t.blockSize)
		case name == "tsize":
			t.sizeAsked = true
			o.value = strconv.FormatInt(size, 10)
		case name == "windowsize" && n >= 1 && n <= 65535:
			t.window = min(int(n), maxWindow)
			o.value = strconv.Itoa(t.window)
		case name == "timeout" && n >= 1 && n <= maxTimeout:
			t.timeout = time.Duration(n) * time.Second
		default:
			continue
		}
		seen[name] = true
		t.oack = append(t.oack, o)
	}
	return t
}
