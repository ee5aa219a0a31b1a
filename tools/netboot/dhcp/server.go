// Package dhcp has boards boot over the network: a DHCP server, RFC 2131 and 2132,
// for boards on a cable of their own, or a proxy beside the server that a network
// has, after Intel's PXE 2.1, RFC 4578 and UEFI 2.10, section 24.
//
// Server decides and has no sockets; Serve has them.
package dhcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

const (
	serverPort = 67
	clientPort = 68
	pxePort    = 4011 // of a PXE boot server
)

// Server answers packets. It is safe for use by several goroutines.
type Server struct {
	c     Config
	mu    sync.Mutex
	book  *book
	guard *guard
}

// New checks the settings and reads the leases. The error has all faults.
func New(c Config) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.LeaseTime == 0 {
		c.LeaseTime = time.Hour
	}
	if c.LoopLimit == 0 {
		c.LoopLimit = 10
	}
	if c.OnEvent == nil {
		c.OnEvent = func(Event) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	var before []Lease
	if c.LeaseFile != "" {
		var err error
		if before, err = readLeases(c.LeaseFile); err != nil {
			return nil, err
		}
	}
	s := &Server{c: c, guard: newGuard(c.LoopLimit)}
	s.book = newBook(&s.c, before)
	return s, nil
}

// Leases returns the leases by address, expired and declined ones too.
func (s *Server) Leases() []Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.list()
}

// Request is a packet and its way.
type Request struct {
	Data []byte
	From netip.AddrPort
	To   netip.Addr // where the client sent it; a broadcast, or the zero value where unknown
	Port uint16     // 67 or 4011
}

// Reply is what to send.
type Reply struct {
	Data []byte
	From netip.Addr     // the source: a Pi 3B loads from it
	To   netip.AddrPort // may be the broadcast 255.255.255.255
	// Again are the times after the first at which the same is sent once more; see
	// wakeROM.
	Again []time.Duration
}

// wakeROM: the boot ROM of a Pi 3B does not look at an answer before another
// packet arrives, gives up when none does for about a second, and takes none as
// the end before a second is over. On a quiet network, which this one is with a
// board or two, it would wait for ever, so that its answer comes three times.
func wakeROM() []time.Duration {
	return []time.Duration{600 * time.Millisecond, 1200 * time.Millisecond}
}

// romTransaction is the same for all packets of the boot ROM of a Pi 3B.
const romTransaction = 0x26f30339

// exchange is one packet and what is known of it.
type exchange struct {
	*Server
	r      Request
	p      *dhcpv4.DHCPv4
	client Client
	past   *past
	now    time.Time
}

// Answer decides about a packet. False has no answer.
func (s *Server) Answer(r Request) (Reply, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := exchange{Server: s, r: r, now: s.c.Now()}
	p, err := parse(r.Data)
	if err != nil {
		x.event(Event{Kind: Damaged, Err: fmt.Errorf("read a packet by %v: %w", r.From, err)})
		return Reply{}, false
	}
	x.p = p
	var ok bool
	if x.client, ok = identify(p, s.reached(r.To)); !ok {
		return Reply{}, false
	}
	x.past = s.guard.of(x.client.MAC, x.now)
	if p.MessageType() == dhcpv4.MessageTypeRequest && x.client.Stage == Linux && x.past.xid == p.TransactionID && x.past.client.Stage == RaspberryPi {
		// The EEPROM of a Pi 4 leaves its class and option 97 out of REQUEST.
		x.client.Stage, x.client.Arch = RaspberryPi, x.past.client.Arch
		x.client.UUID, x.client.Serial = x.past.client.UUID, x.past.client.Serial
	}
	switch {
	case r.Port == pxePort:
		return x.bootServer()
	case s.c.Mode == Full:
		return x.full()
	default:
		return x.proxy()
	}
}

var errNotRequest = errors.New("it is no request of a client")

// parse reads a packet of a client.
func parse(data []byte) (*dhcpv4.DHCPv4, error) {
	p, err := dhcpv4.FromBytes(data)
	if err != nil {
		return nil, err
	}
	if p.OpCode != dhcpv4.OpcodeBootRequest || p.MessageType() == dhcpv4.MessageTypeNone {
		return nil, errNotRequest
	}
	return p, nil
}

// reached is this server's address for a client: the one that it used, if that is
// one of a machine.
func (s *Server) reached(to netip.Addr) netip.Addr {
	to = to.Unmap()
	if !to.Is4() || to.IsUnspecified() || to.IsMulticast() || to == broadcast() || s.c.Subnet.Contains(to) && !s.c.usable(to) {
		return s.c.ServerIP
	}
	return to
}

func broadcast() netip.Addr { return netip.AddrFrom4([4]byte{255, 255, 255, 255}) }

func (x *exchange) event(e Event) {
	e.Time, e.Client, e.Port = x.now, x.client, x.r.Port
	x.c.OnEvent(e)
}

// reply begins an answer.
func (x *exchange) reply(t dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	p, err := dhcpv4.NewReplyFromRequest(x.p, dhcpv4.WithMessageType(t),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(x.client.Server.AsSlice())),
		// PXE 2.1, 2.2.2: the client's identity is repeated; RFC 4578, 2.3.
		dhcpv4.WithOptionCopied(x.p, dhcpv4.OptionClientMachineIdentifier))
	if err != nil {
		panic("dhcp: a reply cannot be made: " + err.Error()) // it takes random numbers alone to fail
	}
	return p
}

// target asks what the client is to load. False is nothing, and was told.
func (x *exchange) target() (Target, bool) {
	if x.client.Stage == Linux || x.c.Boot == nil {
		return Target{}, false
	}
	t, ok := x.c.Boot.Offer(x.client)
	if !ok || t.name(x.client.Stage) == "" && x.client.Stage != RaspberryPi {
		x.event(Event{Kind: Held, Detail: "this board is offered nothing to load"})
		return Target{}, false
	}
	if why, first := x.guard.loops(x.past, x.client, t, x.now); why != "" {
		if first {
			x.event(Event{Kind: Looped, Target: t, Detail: why})
		}
		return Target{}, false
	}
	return t, true
}

// send finds where an answer goes, RFC 2131, section 4.1. A client that has no
// address yet is answered by broadcast whether it wants that or not: the other way
// needs an ARP entry by hand, and boot ROMs take both.
func (x *exchange) send(p *dhcpv4.DHCPv4) (Reply, bool) {
	r := Reply{Data: p.ToBytes(), From: x.client.Server}
	relay, _ := netip.AddrFromSlice(x.p.GatewayIPAddr.To4())
	client, _ := netip.AddrFromSlice(x.p.ClientIPAddr.To4())
	nak := p.MessageType() == dhcpv4.MessageTypeNak
	switch {
	case relay.IsValid() && !relay.IsUnspecified():
		r.To = netip.AddrPortFrom(relay, serverPort)
	case x.r.Port == pxePort && x.r.From.IsValid() && !x.r.From.Addr().IsUnspecified():
		r.To = x.r.From
	case client.IsValid() && !client.IsUnspecified() && !nak:
		r.To = netip.AddrPortFrom(client, clientPort)
	default:
		r.To = netip.AddrPortFrom(broadcast(), clientPort)
	}
	rom := binary.BigEndian.Uint32(x.p.TransactionID[:]) == romTransaction
	if rom && x.client.Stage == RaspberryPi && p.MessageType() == dhcpv4.MessageTypeOffer {
		r.Again = wakeROM()
	}
	return r, true
}
