package dhcp

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

var (
	boardMAC = MAC{0x02, 0, 0, 0, 0, 0x42}
	piMAC    = MAC{0xb8, 0x27, 0xeb, 0x2f, 0xaa, 0xeb}
	serverIP = netip.MustParseAddr("10.0.0.1")
)

// packet is a client's, with the options of its pieces.
func packet(t testing.TB, mac MAC, kind dhcpv4.MessageType, with ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	p, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithMessageType(kind),
		dhcpv4.WithHwAddr(mac[:]), dhcpv4.WithTransactionID(dhcpv4.TransactionID{1, 2, 3, 4})}, with...)...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func option(code uint8, value string) dhcpv4.Modifier {
	return dhcpv4.WithGeneric(dhcpv4.GenericOptionCode(code), []byte(value))
}

// firmware has the options of PXE or HTTP firmware of an architecture.
func firmware(class string, a Arch) dhcpv4.Modifier {
	return func(p *dhcpv4.DHCPv4) {
		option(60, fmt.Sprintf("%s:Arch:%05d:UNDI:003016", class, a))(p)
		option(93, string(binary.BigEndian.AppendUint16(nil, uint16(a))))(p)
		option(94, "\x01\x03\x10")(p)
		option(97, "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10")(p)
	}
}

func without(code uint8) dhcpv4.Modifier {
	return func(p *dhcpv4.DHCPv4) { p.DeleteOption(dhcpv4.GenericOptionCode(code)) }
}

func xid(n byte) dhcpv4.Modifier {
	return dhcpv4.WithTransactionID(dhcpv4.TransactionID{9, 9, 9, n})
}

// table is a Boot that offers by stage, except to those that are held.
type table struct {
	targets map[Stage]Target
	held    map[MAC]bool
	asked   []Client
}

func (b *table) Offer(c Client) (Target, bool) {
	b.asked = append(b.asked, c)
	t, ok := b.targets[c.Stage]
	t.URL = strings.ReplaceAll(t.URL, "SERVER", c.Server.String())
	return t, ok && !b.held[c.MAC]
}

func (b *table) Targets() []Target {
	return slices.Collect(func(yield func(Target) bool) {
		for _, t := range b.targets {
			if !yield(t) {
				return
			}
		}
	})
}

func newTable() *table {
	return &table{held: map[MAC]bool{}, targets: map[Stage]Target{
		PXE: {File: "ipxe.efi"}, IPXE: {URL: "http://SERVER/boot.ipxe"}, HTTP: {URL: "http://SERVER/node.efi"}, RaspberryPi: {},
	}}
}

// rig is a server with a clock that stands still, and its events.
type rig struct {
	t      testing.TB
	s      *Server
	boot   *table
	now    time.Time
	events []Event
}

func newRig(t testing.TB, change func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, boot: newTable(), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	c := Config{Interface: "eth0", ServerIP: serverIP, Mode: Proxy, Boot: r.boot,
		Now: func() time.Time { return r.now }, OnEvent: func(e Event) { r.events = append(r.events, e) }}
	if change != nil {
		change(&c)
	}
	var err error
	if r.s, err = New(c); err != nil {
		t.Fatal(err)
	}
	return r
}

// inFull makes the settings those of a full server.
func inFull(c *Config) {
	c.Mode = Full
	c.Subnet = netip.MustParsePrefix("10.0.0.0/24")
	c.PoolFirst, c.PoolLast = netip.MustParseAddr("10.0.0.100"), netip.MustParseAddr("10.0.0.102")
	c.Router = serverIP
	c.DNS = []netip.Addr{serverIP}
}

// ask has a packet answered at a port.
func (r *rig) ask(p *dhcpv4.DHCPv4, port uint16) (*dhcpv4.DHCPv4, Reply) {
	r.t.Helper()
	reply, ok := r.s.Answer(Request{Data: p.ToBytes(), Port: port, From: netip.MustParseAddrPort("10.0.0.77:4711")})
	if !ok {
		return nil, reply
	}
	a, err := dhcpv4.FromBytes(reply.Data)
	if err != nil {
		r.t.Fatal(err)
	}
	return a, reply
}

// kinds are those of the events since the last call.
func (r *rig) kinds() string {
	var all []string
	for _, e := range r.events {
		all = append(all, string(e.Kind))
	}
	r.events = nil
	return strings.Join(all, " ")
}

// dump is an answer as text: what of it is not zero, and the options that are
// about booting.
func dump(p *dhcpv4.DHCPv4) string {
	if p == nil {
		return "none"
	}
	s := p.MessageType().String()
	for _, f := range []struct {
		name string
		ip   net.IP
	}{{"yiaddr", p.YourIPAddr}, {"siaddr", p.ServerIPAddr}, {"ciaddr", p.ClientIPAddr}} {
		if !f.ip.IsUnspecified() {
			s += " " + f.name + "=" + f.ip.String()
		}
	}
	if p.BootFileName != "" {
		s += " file=" + p.BootFileName
	}
	for _, code := range []uint8{43, 54, 60, 66, 67, 97} {
		v := p.Options.Get(dhcpv4.GenericOptionCode(code))
		switch {
		case v == nil:
		case code == 60 || code == 66 || code == 67:
			s += fmt.Sprintf(" %d=%s", code, v)
		case code == 97:
			s += fmt.Sprintf(" 97=%d bytes", len(v))
		default:
			s += fmt.Sprintf(" %d=%x", code, v)
		}
	}
	return s
}
