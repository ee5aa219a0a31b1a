package linux

import (
	"bytes"
	"encoding/binary"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"machined/hal"
)

var testMAC = [6]byte{2, 0, 0, 0, 0, 1}

func v4(a, b, c, d byte) hal.Address { return hal.Address{Bytes: [16]byte{a, b, c, d}, Len: 4} }

// option is one option, byte for byte.
type option struct {
	code  uint8
	value string
}

const (
	mask24  = "\xff\xff\xff\x00"
	server  = "\xc0\xa8\x07\x01"
	ackType = "\x05"
)

// reply returns a reply for testMAC and address 192.168.7.100, with those
// options beside type, mask and server.
func reply(options ...option) []byte {
	p := &dhcpv4.DHCPv4{
		OpCode: dhcpv4.OpcodeBootReply, HWType: 1, TransactionID: dhcpv4.TransactionID{1, 2, 3, 4},
		ClientHWAddr: testMAC[:], YourIPAddr: net.IP{192, 168, 7, 100}, Options: dhcpv4.Options{53: []byte(ackType), 1: []byte(mask24), 54: []byte(server)},
	}
	for _, o := range options {
		p.Options[o.code] = []byte(o.value)
	}
	return p.ToBytes()
}

func TestDecodeDHCP(t *testing.T) {
	gateway := []hal.DHCPRoute{{Destination: hal.Prefix{Address: hal.Address{Len: 4}}, Gateway: v4(192, 168, 7, 1)}}
	for _, c := range []struct {
		name    string
		options []option
		change  func(*hal.DHCPMessage)
	}{
		{"nothing more", nil, func(*hal.DHCPMessage) {}},
		{"times", []option{{51, "\x00\x00\x0e\x10"}, {58, "\x00\x00\x00\x05"}, {59, "\xff\xff\xff\xff"}}, func(m *hal.DHCPMessage) {
			m.Lease, m.Renew, m.Rebind = 3600, 5, 1<<32-1
		}},
		{"times of other lengths", []option{{51, "\x0e\x10"}, {58, ""}, {59, "\x00\x00\x00\x00\x01"}}, func(*hal.DHCPMessage) {}},
		{"offer", []option{{53, "\x02"}}, func(m *hal.DHCPMessage) { m.Type = hal.DHCPOffer }},
		{"router", []option{{3, server + "\xc0\xa8\x07\x02"}}, func(m *hal.DHCPMessage) { m.Routes = gateway }},
		{"routers that are none", []option{{3, "\x00\x00\x00\x00\xff\xff\xff\xff" + server}}, func(m *hal.DHCPMessage) { m.Routes = gateway }},
		{"RFC 3442: option 121 alone counts", []option{{3, server}, {121, "\x08\x0a\xc0\xa8\x07\x02"}}, func(m *hal.DHCPMessage) {
			m.Routes = []hal.DHCPRoute{{Destination: hal.Prefix{Address: v4(10, 0, 0, 0), Bits: 8}, Gateway: v4(192, 168, 7, 2)}}
		}},
		{"option 121 with all its forms", []option{{121, "\x00" + server + "\x18\xac\x10\x05\x00\x00\x00\x00\x0c\xac\xff" + server}}, func(m *hal.DHCPMessage) {
			m.Routes = append(gateway[:1:1], hal.DHCPRoute{Destination: hal.Prefix{Address: v4(172, 16, 5, 0), Bits: 24}},
				hal.DHCPRoute{Destination: hal.Prefix{Address: v4(172, 240, 0, 0), Bits: 12}, Gateway: v4(192, 168, 7, 1)})
		}},
		{"twice to one destination", []option{{121, "\x00" + server + "\x00\xc0\xa8\x07\x02"}}, func(m *hal.DHCPMessage) { m.Routes = gateway }},
		{"option 121 cut off", []option{{3, server}, {121, "\x08\x0a\xc0\xa8"}}, func(m *hal.DHCPMessage) { m.Routes = gateway }},
		{"option 121 of 33 bits", []option{{3, server}, {121, "\x21\x0a\x00\x00\x00\x00" + server}}, func(m *hal.DHCPMessage) { m.Routes = gateway }},
		{"option 121 by nobody", []option{{3, server}, {121, "\x08\x0a\x7f\x00\x00\x01"}}, func(m *hal.DHCPMessage) { m.Routes = gateway }},
		{"name and time servers", []option{{6, server + server + "\x09\x09\x09\x09"}, {42, "\xe0\x00\x00\x01\x0a\x00\x00\x05"}}, func(m *hal.DHCPMessage) {
			m.Nameservers, m.TimeServers = []hal.Address{v4(192, 168, 7, 1), v4(9, 9, 9, 9)}, []hal.Address{v4(10, 0, 0, 5)}
		}},
		{"servers of a broken length", []option{{6, server + "\x09\x09"}}, func(m *hal.DHCPMessage) { m.Nameservers = []hal.Address{v4(192, 168, 7, 1)} }},
		{"host name", []option{{12, "kitchen-2\x00"}}, func(m *hal.DHCPMessage) { m.Hostname = "kitchen-2" }},
		{"domain", []option{{15, "lan\x00"}}, func(m *hal.DHCPMessage) { m.Search = []string{"lan"} }},
		{"RFC 3397: option 119 before 15", []option{{15, "lan"}, {119, "\x01a\x03lan\x00\x01b\xc0\x02"}}, func(m *hal.DHCPMessage) {
			m.Search = []string{"a.lan", "b.lan"}
		}},
		{"option 119 broken", []option{{15, "lan"}, {119, "\x3fa"}}, func(m *hal.DHCPMessage) { m.Search = []string{"lan"} }},
		{"option 119 pointing at itself", []option{{15, "lan"}, {119, "\xc0\x00"}}, func(m *hal.DHCPMessage) { m.Search = []string{"lan"} }},
		{"MTU", []option{{26, "\x05\x78"}}, func(m *hal.DHCPMessage) { m.MTU = 1400 }},
		{"MTU too small", []option{{26, "\x02\x3f"}}, func(*hal.DHCPMessage) {}},
		{"MTU too large", []option{{26, "\xff\xff"}}, func(*hal.DHCPMessage) {}},
		{"MTU of a broken length", []option{{26, "\x78"}}, func(*hal.DHCPMessage) {}},
		{"text", []option{{56, " go\naway\x1b[31m "}}, func(m *hal.DHCPMessage) { m.Text = "goaway[31m" }},
		{"no server", []option{{54, ""}}, func(m *hal.DHCPMessage) { m.Server = hal.Address{} }},
		{"host mask", []option{{1, "\xff\xff\xff\xff"}}, func(m *hal.DHCPMessage) { m.Address.Bits = 32 }},
	} {
		want := hal.DHCPMessage{
			Type: hal.DHCPAck, Transaction: 0x01020304, Address: hal.Prefix{Address: v4(192, 168, 7, 100), Bits: 24}, Server: v4(192, 168, 7, 1),
		}
		c.change(&want)
		got := decodeDHCP(reply(c.options...), testMAC)
		if got == nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: decodeDHCP gives\n%+v; want\n%+v", c.name, got, want)
		}
	}
}

func TestDecodeDHCPBounds(t *testing.T) {
	var routes, servers, domains string
	for i := range byte(30) {
		routes += "\x10\x0a" + string(rune('A'+i)) + server
		servers += "\x0a\x00\x00" + string(rune('A'+i))
		domains += "\x01" + string(rune('A'+i)) + "\x00"
	}
	m := decodeDHCP(reply(option{121, routes}, option{6, servers}, option{42, servers}, option{119, domains}, option{56, strings.Repeat("x", 250)}), testMAC)
	if m == nil {
		t.Fatal("decodeDHCP refuses a message with much in it")
	}
	if len(m.Routes) != 16 || len(m.Nameservers) != 4 || len(m.TimeServers) != 4 || len(m.Search) != 8 || len(m.Text) != 128 {
		t.Errorf("%d routes, %d name servers, %d time servers, %d domains, text of %d bytes; want 16, 4, 4, 8, 128",
			len(m.Routes), len(m.Nameservers), len(m.TimeServers), len(m.Search), len(m.Text))
	}
}

func TestDecodeDHCPRefuses(t *testing.T) {
	for name, b := range map[string][]byte{
		"no mask":             reply(option{1, ""}),
		"mask with a hole":    reply(option{1, "\xff\x00\xff\x00"}),
		"mask of nothing":     reply(option{1, "\x00\x00\x00\x00"}),
		"mask of 3 bytes":     reply(option{1, "\xff\xff\xff"}),
		"no type":             reply(option{53, ""}),
		"type of two bytes":   reply(option{53, "\x05\x05"}),
		"a client's type":     reply(option{53, "\x03"}),
		"empty":               {},
		"header alone":        reply()[:240],
		"request":             patched(0, 1),
		"other network type":  patched(1, 6),
		"address of 16 bytes": patched(2, 16),
		"other client":        patched(33, 9),
		"address 0.0.0.0":     patched(16, 0, 0, 0, 0),
		"loopback address":    patched(16, 127),
		"multicast address":   patched(16, 239),
		"wrong cookie":        patched(236, 0),
		"no end":              bytes.TrimRight(bytes.TrimRight(reply(), "\x00"), "\xff"),
	} {
		if got := decodeDHCP(b, testMAC); got != nil {
			t.Errorf("%s: decodeDHCP gives %+v; want it refused", name, got)
		}
	}
}

// patched is a good reply with other bytes at an offset.
func patched(at int, with ...byte) []byte {
	b := reply()
	copy(b[at:], with)
	return b
}

// TestDecodeRefusal: a refusal has no address, and is one all the same.
func TestDecodeRefusal(t *testing.T) {
	b := reply(option{53, "\x06"}, option{1, ""}, option{56, "wrong network"})
	copy(b[16:20], []byte{0, 0, 0, 0})
	m := decodeDHCP(b, testMAC)
	if m == nil || m.Type != hal.DHCPNak || m.Text != "wrong network" || m.Server != v4(192, 168, 7, 1) || m.Address.Address.Len != 0 {
		t.Errorf("decodeDHCP of a refusal = %+v; want it with its server and text", m)
	}
}

// TestOverload has options in the fields of names (RFC 2132, 9.3).
func TestOverload(t *testing.T) {
	b := reply(option{52, "\x03"})
	copy(b[44:], "\x0c\x03two\xff")           // sname: host name
	copy(b[108:], "\x1a\x02\x05\x78\x00\xff") // file: MTU
	if m := decodeDHCP(b, testMAC); m == nil || m.MTU != 1400 || m.Hostname != "two" {
		t.Errorf("decodeDHCP = %+v; want the options of both fields", m)
	}
	copy(b[108:], "\x1a\xff")
	if m := decodeDHCP(b, testMAC); m != nil {
		t.Errorf("decodeDHCP = %+v; want a message refused whose options run out of their field", m)
	}
}

func TestEncodeDHCP(t *testing.T) {
	m := &hal.DHCPMessage{
		Type: hal.DHCPRequest, Transaction: 0xdeadbeef, Seconds: 7, ClientAddress: v4(10, 0, 0, 9), Requested: v4(10, 0, 0, 8), Server: v4(10, 0, 0, 1),
		Hostname: "node", ClientID: []byte("\x01abcdef"), Broadcast: true, MaxSize: 1500, Parameters: []byte{1, 3, 121},
	}
	p, err := dhcpv4.FromBytes(encodeDHCP(m, testMAC))
	if err != nil {
		t.Fatal(err)
	}
	if p.OpCode != dhcpv4.OpcodeBootRequest || p.HWType != 1 || !bytes.Equal(p.ClientHWAddr, testMAC[:]) || p.NumSeconds != 7 ||
		!p.IsBroadcast() || !p.ClientIPAddr.Equal(net.IP{10, 0, 0, 9}) || binary.BigEndian.Uint32(p.TransactionID[:]) != 0xdeadbeef {
		t.Errorf("the header is %+v", p)
	}
	want := dhcpv4.Options{
		53: {3}, 50: {10, 0, 0, 8}, 54: {10, 0, 0, 1}, 12: []byte("node"), 61: []byte("\x01abcdef"), 57: {1500 >> 8, 1500 & 0xff}, 55: {1, 3, 121},
	}
	if !reflect.DeepEqual(p.Options, want) {
		t.Errorf("the options are %v; want %v", map[uint8][]byte(p.Options), map[uint8][]byte(want))
	}
	bare, err := dhcpv4.FromBytes(encodeDHCP(&hal.DHCPMessage{Type: hal.DHCPDiscover}, testMAC))
	if err != nil || len(bare.Options) != 1 || len(encodeDHCP(&hal.DHCPMessage{}, testMAC)) < 300 {
		t.Errorf("a bare message has the options %v, %v; want its type alone, and 300 bytes (RFC 951)", bare.Options, err)
	}
}

// FuzzDecodeDHCP checks that whatever comes, what is passed on is of use.
func FuzzDecodeDHCP(f *testing.F) {
	f.Add(reply())
	f.Add(reply(option{121, "\x08\x0a\xc0\xa8\x07\x02"}, option{6, server}, option{119, "\x01a\x03lan\x00\x01b\xc0\x02"}, option{12, "n"}, option{52, "\x03"}))
	f.Add(reply(option{53, "\x06"}, option{56, "no"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := decodeDHCP(b, testMAC)
		if m == nil {
			return
		}
		host := func(a hal.Address) bool {
			return a.Len == 4 && a.Bytes[0] != 0 && a.Bytes[0] != 127 && a.Bytes[0] < 224
		}
		if m.Type != hal.DHCPNak && (!host(m.Address.Address) || m.Address.Bits == 0 || m.Address.Bits > 32) {
			t.Errorf("address %v", m.Address)
		}
		if len(m.Routes) > maxDHCPRoutes || len(m.Search) > maxDHCPDomains || len(m.Nameservers)+len(m.TimeServers) > 2*maxDHCPServers || len(m.Text) > maxDHCPText {
			t.Errorf("more than is taken: %+v", m)
		}
		for _, r := range m.Routes {
			if r.Destination.Masked() != r.Destination || r.Gateway.Len != 0 && !host(r.Gateway) {
				t.Errorf("route %v", r)
			}
		}
		for _, name := range append(m.Search, m.Hostname) {
			if name != "" && domain(name) != name || len(m.Hostname) > maxHostname {
				t.Errorf("name %q", name)
			}
		}
		if m.MTU != 0 && (m.MTU < minDHCPMTU || m.MTU > maxDHCPMTU) || strings.ContainsFunc(m.Text, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("MTU %d, text %q", m.MTU, m.Text)
		}
	})
}

func TestDomain(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, c := range []struct{ in, want string }{
		{"lan", "lan"}, {"Example.ORG.", "Example.ORG"}, {"a-b.c", "a-b.c"}, {"7", "7"}, {"", ""}, {".", ""}, {"a..b", ""}, {".a", ""},
		{"-a", ""}, {"a-", ""}, {"a.-b", ""}, {"a b", ""}, {"a_b", ""}, {"a\nb", ""}, {"ä", ""}, {"a\x00b", ""}, {"a\x00\x00", "a"},
		{long, long}, {long + "a", ""}, {strings.Repeat(long+".", 3) + long, ""}, {strings.Repeat(long+".", 3) + long[:61], strings.Repeat(long+".", 3) + long[:61]},
	} {
		if got := domain(c.in); got != c.want {
			t.Errorf("domain(%q) = %q; want %q", c.in, got, c.want)
		}
	}
	for in, want := range map[string]string{
		"localhost": "", "localhost.localdomain": "", long + ".example.org": long, "kitchen.lan": "kitchen.lan",
	} {
		if got := hostname([]byte(in)); got != want {
			t.Errorf("hostname(%q) = %q; want %q", in, got, want)
		}
	}
}
