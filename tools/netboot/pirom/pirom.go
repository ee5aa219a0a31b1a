// Package pirom does what the boot ROM of a Raspberry Pi 3B and its bootcode.bin do
// on the network, faults included, so that tests can boot one without the board.
//
// The rules are from packets that people recorded of real boards
// (raspberrypi/firmware issues 764, 1041, 1265 and others), Raspberry Pi's
// documentation of network boot, and the measurements of the ROM's time-outs of
// openSUSE's netboot-rpi3b.
package pirom

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Transaction is the DHCP transaction of each packet of the ROM, on all boards.
const Transaction = 0x26f30339

// Board is a Raspberry Pi 3B.
type Board struct {
	MAC    [6]byte
	Serial uint32
	// Faceless has it say "DDDD" in place of its serial number, as some do.
	Faceless bool
}

// Discover is the one packet of DHCP that the ROM sends. It knows no REQUEST.
func (b Board) Discover() []byte {
	p := make([]byte, 236, 322)
	p[0], p[1], p[2] = 1, 1, 6
	binary.BigEndian.PutUint32(p[4:], Transaction)
	copy(p[28:], b.MAC[:])
	id := binary.LittleEndian.AppendUint32(nil, b.Serial)
	if b.Faceless {
		id = []byte("DDDD")
	}
	for _, part := range [][]byte{
		{0x63, 0x82, 0x53, 0x63}, {53, 1, 1},
		{55, 14, 43, 60, 67, 128, 129, 130, 131, 132, 133, 134, 135, 66, 1, 3},
		{93, 2, 0, 0}, {94, 3, 1, 2, 1}, append([]byte{97, 17, 0}, bytes.Repeat(id, 4)...),
		append([]byte{60, 32}, "PXEClient:Arch:00000:UNDI:002001"...), {255},
	} {
		p = append(p, part...)
	}
	return p
}

// Arrival is a packet that a board gets after its DISCOVER.
type Arrival struct {
	After time.Duration
	From  netip.Addr
	Data  []byte // of DHCP, or anything else
}

// Setup is what a board knows after DHCP.
type Setup struct {
	Address netip.Addr
	Server  netip.Addr // that it loads from, by TFTP
}

// The ROM's time-outs, as far as they were measured.
const (
	patience    = time.Second // without any packet, before it gives up
	transaction = time.Second // before which it ends no exchange, whatever it has
)

// The ways in which an attempt fails.
var (
	ErrGaveUp  = errors.New("the ROM gave up: no packet came for a second")
	ErrNoSetup = errors.New("the ROM has no address, or no server to load from")
)

// Hear is one attempt of the ROM: what it makes of all that arrives, in order of
// time. Packets of several servers count together: one may give the address, a
// proxy the server.
func Hear(arrivals []Arrival) (Setup, error) {
	var s Setup
	last := time.Duration(0)
	for _, a := range arrivals {
		if a.After-last > patience {
			return s, ErrGaveUp
		}
		last = a.After
		s.take(a)
		if a.After >= transaction && s.Address.IsValid() && s.Server.IsValid() {
			return s, nil
		}
	}
	if !s.Address.IsValid() || !s.Server.IsValid() {
		return s, ErrNoSetup
	}
	return s, ErrGaveUp
}

// take reads an offer: its address, and the server by option 66, if that is a
// dotted address, or by "Raspberry Pi Boot" anywhere in option 43, which makes it
// the sender. The later one in the packet counts.
func (s *Setup) take(a Arrival) {
	p := a.Data
	if len(p) < 240 || p[0] != 2 || binary.BigEndian.Uint32(p[4:]) != Transaction {
		return
	}
	if own := netip.AddrFrom4([4]byte(p[16:20])); !own.IsUnspecified() {
		s.Address = own
	}
	for o := p[240:]; len(o) >= 2 && o[0] != 255; {
		if o[0] == 0 { // it does not know padding, and reads no further
			return
		}
		n := int(o[1])
		if len(o) < n+2 {
			return
		}
		switch value := o[2 : n+2]; o[0] {
		case 43:
			if bytes.Contains(value, []byte("Raspberry Pi Boot")) {
				s.Server = a.From
			}
		case 66:
			if ip, err := netip.ParseAddr(string(value)); err == nil {
				s.Server = ip
			}
		}
		o = o[n+2:]
	}
}

// attempts is how often the ROM sends DISCOVER before it gives up for good.
const attempts = 5

// Configure runs DHCP on a socket that is bound to port 68 of the board's
// interface.
func (b Board) Configure(conn *net.UDPConn) (Setup, error) {
	buf := make([]byte, 2048)
	err := error(ErrNoSetup)
	for range attempts {
		if _, err := conn.WriteToUDP(b.Discover(), &net.UDPAddr{IP: net.IPv4bcast, Port: 67}); err != nil {
			return Setup{}, fmt.Errorf("send DISCOVER: %w", err)
		}
		var heard []Arrival
		start := time.Now()
		for {
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			n, from, failed := conn.ReadFromUDPAddrPort(buf)
			if failed != nil {
				break
			}
			heard = append(heard, Arrival{time.Since(start), from.Addr().Unmap(), bytes.Clone(buf[:n])})
			var s Setup
			if s, err = Hear(heard); err == nil {
				return s, nil
			}
		}
	}
	return Setup{}, fmt.Errorf("after %d attempts: %w", attempts, err)
}
