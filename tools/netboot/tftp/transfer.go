package tftp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// transfer sends one content to one client. Blocks are counted without end here;
// on the wire the number is of 16 bits and goes on at 0 after 65,535, as all
// clients have it that take files of more blocks.
type transfer struct {
	conn    *net.UDPConn
	content Content
	terms   terms
	timeout time.Duration
	retries int
	pace    time.Duration // for minPace bytes
	paced   time.Time     // when that was last looked at
	pacedAt int64         // bytes that were confirmed then

	total int64 // bytes
	last  int64 // number of the last block, which is shorter than the others
	base  int64 // blocks that the client has confirmed

	first    func() // once the client has answered
	progress func() // four times a second at most
	told     time.Time

	packet  []byte // DATA as it is sent
	ahead   []byte // what was read of the content, in large pieces
	aheadAt int64  // its offset
	answers []byte
	armed   time.Time // the socket's deadline
}

// readAhead is how much is read of the content at a time, in bytes.
const readAhead = 128 << 10

// minPace is how much a client has to confirm in Options.Pace, in bytes.
const minPace = 64 << 10

func newTransfer(conn *net.UDPConn, content Content, t terms, o Options) *transfer {
	total := content.Size()
	r := &transfer{conn: conn, content: content, terms: t, timeout: o.Timeout, retries: o.Retries, pace: o.Pace,
		total: total, last: total/int64(t.blockSize) + 1, told: time.Now(), paced: time.Now(),
		packet: make([]byte, headerSize+t.blockSize), answers: make([]byte, maxRequest)}
	if t.timeout > 0 {
		r.timeout = t.timeout
	}
	return r
}

// bytes is how much the client has confirmed.
func (t *transfer) bytes() int64 { return min(t.base*int64(t.terms.blockSize), t.total) }

// stopped is the client's ERROR.
type stopped struct {
	code    uint16
	message string
}

func (s *stopped) Error() string {
	return fmt.Sprintf("the client ended it with error %d %q", s.code, s.message)
}

var (
	errSilent = errors.New("the client does not answer")
	errSlow   = errors.New("the client takes too little at a time")
)

// looked tells whether an early end is one of the ways in which firmware looks at
// a file without reading it.
func (t *transfer) looked(polite bool, reason string) (bool, string) {
	switch {
	case !polite:
		return false, reason
	case t.base == 0 && t.terms.sizeAsked:
		return true, "the client asked for the size alone, which is normal"
	case t.base <= 1:
		return true, "the client looked whether the file is there, which is normal"
	}
	return false, reason
}

// run sends all of it. The error is a *stopped where the client ended it.
func (t *transfer) run(ctx context.Context) error {
	if len(t.terms.oack) > 0 {
		oack := appendOACK(nil, t.terms.oack)
		send := func() error { return t.write(oack) }
		if err := t.exchange(ctx, send, func(n uint16) reply { return map[bool]reply{true: accepted}[n == 0] }); err != nil {
			return fmt.Errorf("confirm the options: %w", err)
		}
	}
	for t.base < t.last {
		if err := t.window(ctx); err != nil {
			return fmt.Errorf("send block %d of %d: %w", t.base+1, t.last, err)
		}
		if now := t.armed; now.Sub(t.told) >= time.Second/4 && t.base < t.last {
			t.told = now
			t.progress()
		}
	}
	return nil
}

// window sends the blocks that the client may still take and awaits its ACK.
func (t *transfer) window(ctx context.Context) error {
	base, end := t.base, min(t.base+int64(t.terms.window), t.last)
	again := t.terms.window > 1
	return t.exchange(ctx, func() error { return t.blocks(base+1, end) }, func(n uint16) reply {
		ahead := int64(n - uint16(base))
		switch {
		case ahead >= 1 && ahead <= end-base:
			t.base = base + ahead
			return accepted
		case ahead == 0 && again:
			// RFC 7440, section 4: the first block of the window was lost. Once
			// a window, or each late ACK would have it sent again.
			again = false
			return resend
		}
		// An old ACK once more. An answer to it would double every block from
		// here on, the "Sorcerer's Apprentice" of RFC 1123, 4.2.3.1.
		return ignored
	})
}

type reply int

const (
	ignored reply = iota
	accepted
	resend
)

// exchange sends and awaits the ACK that takes it on, and sends again where none
// comes in time.
func (t *transfer) exchange(ctx context.Context, send func() error, judge func(uint16) reply) error {
	for try := 0; try <= t.retries; try++ {
		if err := send(); err != nil {
			return err
		}
		if err := t.arm(ctx); err != nil {
			return err
		}
		for {
			n, err := t.conn.Read(t.answers)
			var ne net.Error
			if errors.As(err, &ne) && ne.Timeout() {
				break
			}
			if err != nil {
				return err
			}
			a, ok := parseAnswer(t.answers[:n])
			if !ok {
				continue
			}
			t.first()
			if a.op == opError {
				return &stopped{a.code, a.message}
			}
			switch judge(a.block) {
			case accepted:
				return nil
			case resend:
				if err := send(); err != nil {
					return err
				}
			}
		}
		t.armed = time.Time{}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("%d times, %v each: %w; check the cable and firewalls", t.retries+1, t.timeout, errSilent)
}

// arm sets the deadline for an answer. Doing so for each block takes a good part
// of the time of a transfer; within an eighth of it, the one before serves too.
func (t *transfer) arm(ctx context.Context) error {
	now := time.Now()
	if now.Sub(t.paced) >= t.pace {
		if err := t.keepsPace(now); err != nil {
			return err
		}
	}
	if now.Sub(t.armed) < t.timeout/8 {
		return nil
	}
	t.armed = now
	if err := t.conn.SetReadDeadline(now.Add(t.timeout)); err != nil {
		return err
	}
	return ctx.Err() // the cancellation's own deadline may just have been undone
}

// keepsPace returns an error for a client that has confirmed less since the last look
// than it has to.
func (t *transfer) keepsPace(now time.Time) error {
	done := t.bytes() - t.pacedAt
	if want := min(minPace, t.total-t.pacedAt); done < want || t.pacedAt == t.total {
		return fmt.Errorf("%d bytes in %v, and %d are the least: %w; check the cable", done, now.Sub(t.paced).Round(time.Second), want, errSlow)
	}
	t.paced, t.pacedAt = now, t.bytes()
	return nil
}

// blocks sends the blocks from first to last.
func (t *transfer) blocks(first, last int64) error {
	for b := first; b <= last; b++ {
		size := int64(t.terms.blockSize)
		at := (b - 1) * size
		payload := t.packet[headerSize : headerSize+min(size, t.total-at)]
		if err := t.read(payload, at); err != nil {
			return err
		}
		binary.BigEndian.PutUint16(t.packet, opData)
		binary.BigEndian.PutUint16(t.packet[2:], uint16(b))
		if err := t.write(t.packet[:headerSize+len(payload)]); err != nil {
			return err
		}
	}
	return nil
}

// read copies a piece of the content, which it reads in larger ones.
func (t *transfer) read(p []byte, at int64) error {
	if len(p) == 0 {
		return nil
	}
	if at < t.aheadAt || at+int64(len(p)) > t.aheadAt+int64(len(t.ahead)) {
		if cap(t.ahead) == 0 {
			t.ahead = make([]byte, 0, min(max(readAhead, int64(len(p))), t.total))
		}
		t.ahead = t.ahead[:min(int64(cap(t.ahead)), t.total-at)]
		t.aheadAt = at
		if n, err := t.content.ReadAt(t.ahead, at); n < len(t.ahead) {
			t.ahead = t.ahead[:0]
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("read %d bytes at %d of the content: %w", len(p), at, err)
		}
	}
	copy(p, t.ahead[at-t.aheadAt:])
	return nil
}

// write sends a packet. One that the kernel could not take now counts as lost,
// and is sent again when its time comes.
func (t *transfer) write(p []byte) error {
	_, err := t.conn.Write(p)
	if err != nil && !errors.Is(err, net.ErrClosed) && !gone(err) {
		return nil
	}
	return err
}
