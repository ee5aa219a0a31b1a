package dhcp

import (
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

const (
	// loopWindow is the time in which attempts count.
	loopWindow = time.Minute
	// forget is how long a client is remembered: a stage follows the one before
	// within it.
	forget = 10 * time.Minute
	// maxRemembered bounds what invented MACs can make a server remember.
	maxRemembered = 4096
)

// guard keeps what boards did lately, to see those that go in circles: iPXE that
// is given iPXE, or a program that comes back for itself again and again.
type guard struct {
	limit  int
	recent map[MAC]*past
}

// past is what one board did.
type past struct {
	seen     time.Time
	client   Client // as its last DISCOVER had it
	xid      dhcpv4.TransactionID
	attempts map[Stage][]time.Time
	loaded   Target // what it was last offered at Stage PXE, and when
	loadedAt time.Time
	looping  Stage // the stage that it was reported for
}

func newGuard(limit int) *guard { return &guard{limit, map[MAC]*past{}} }

func (g *guard) of(m MAC, now time.Time) *past {
	p := g.recent[m]
	if p == nil || now.Sub(p.seen) > forget {
		g.prune(now)
		p = &past{attempts: map[Stage][]time.Time{}}
		g.recent[m] = p
	}
	p.seen = now
	return p
}

// prune makes room for one more.
func (g *guard) prune(now time.Time) {
	if len(g.recent) < maxRemembered {
		return
	}
	var oldest MAC
	var at time.Time
	for m, p := range g.recent {
		if now.Sub(p.seen) > forget {
			delete(g.recent, m)
		} else if at.IsZero() || p.seen.Before(at) {
			oldest, at = m, p.seen
		}
	}
	if len(g.recent) >= maxRemembered {
		delete(g.recent, oldest)
	}
}

// discover notes that a stage begins. A DISCOVER that is sent again is none.
//
// A Raspberry Pi is not counted: its ROM knows no other answer to anything than
// to send DISCOVER again, some with the same transaction each time, and it loads
// no program that could ask for itself.
func (p *past) discover(c Client, xid dhcpv4.TransactionID, now time.Time) {
	again := p.xid == xid && p.client.Stage == c.Stage
	p.client, p.xid = c, xid
	if again || c.Stage == Linux || c.Stage == RaspberryPi {
		return
	}
	p.attempts[c.Stage] = append(p.within(c.Stage, now), now)
}

func (p *past) within(s Stage, now time.Time) []time.Time {
	times := p.attempts[s]
	for len(times) > 0 && now.Sub(times[0]) >= loopWindow {
		times = times[1:]
	}
	return times
}

// loops returns why a client is offered nothing, or "". first is true where that
// was not said yet.
func (g *guard) loops(p *past, c Client, t Target, now time.Time) (why string, first bool) {
	switch {
	case c.Stage == IPXE && now.Sub(p.loadedAt) < loopWindow && same(t, p.loaded):
		why = "iPXE would load " + t.String() + " again, which is what it was loaded by: offer iPXE a script"
	case len(p.within(c.Stage, now)) > g.limit:
		why = "it began this stage more often than is sensible within a minute: what it loads ends at once. It is offered nothing until it is quiet for a minute"
	default:
		p.looping = ""
		if c.Stage == PXE {
			p.loaded, p.loadedAt = t, now
		}
		return "", false
	}
	first = p.looping != c.Stage
	p.looping = c.Stage
	return why, first
}

// same is true for two targets that are one program.
func same(a, b Target) bool {
	return a.File != "" && a.File == b.File || a.URL != "" && a.URL == b.URL || b.File != "" && strings.HasSuffix(a.URL, "/"+b.File)
}
