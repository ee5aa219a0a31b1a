package dhcp

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

func mac(n byte) MAC { return MAC{2, 0, 0, 0, 1, n} }

func ip4(a string) string { b := netip.MustParseAddr(a).As4(); return string(b[:]) }

func asking(a string) dhcpv4.Modifier { return option(50, ip4(a)) }
func choosing(a string) dhcpv4.Modifier {
	return option(54, ip4(a))
}
func having(a string) dhcpv4.Modifier {
	return dhcpv4.WithClientIP(net.ParseIP(a))
}

// take is DISCOVER to ACK; it returns the address, or "".
func (r *rig) take(m MAC) string {
	r.t.Helper()
	o, _ := r.ask(packet(r.t, m, dhcpv4.MessageTypeDiscover), serverPort)
	if o == nil {
		return ""
	}
	a, _ := r.ask(packet(r.t, m, dhcpv4.MessageTypeRequest, asking(o.YourIPAddr.String()), choosing("10.0.0.1")), serverPort)
	if a == nil || a.MessageType() != dhcpv4.MessageTypeAck || !a.YourIPAddr.Equal(o.YourIPAddr) {
		r.t.Fatalf("the offer %s was answered with %s", dump(o), dump(a))
	}
	return a.YourIPAddr.String()
}

// TestLease has all that Linux gets with its address.
func TestLease(t *testing.T) {
	r := newRig(t, func(c *Config) {
		inFull(c)
		c.Statics = []Static{{mac(1), netip.MustParseAddr("10.0.0.7"), "kitchen"}}
	})
	if a := r.take(mac(1)); a != "10.0.0.7" {
		t.Errorf("the address is %s; want the static one", a)
	}
	if got := r.kinds(); got != "discover offer lease" {
		t.Errorf("the events are %s; want discover offer lease", got)
	}
	a, reply := r.ask(packet(t, mac(1), dhcpv4.MessageTypeRequest, having("10.0.0.7"), option(61, "\x01id")), serverPort)
	if reply.To.String() != "10.0.0.7:68" || !a.ClientIPAddr.Equal(net.IPv4(10, 0, 0, 7)) {
		t.Errorf("a renewal is answered to %v with %s; want to the client's own address", reply.To, dump(a))
	}
	for code, want := range map[uint8]string{1: "\xff\xff\xff\x00", 3: ip4("10.0.0.1"), 6: ip4("10.0.0.1"), 12: "kitchen",
		51: "\x00\x00\x0e\x10", 54: ip4("10.0.0.1"), 58: "\x00\x00\x07\x08", 59: "\x00\x00\x0c\x4e", 61: "\x01id"} {
		if got := string(a.Options.Get(dhcpv4.GenericOptionCode(code))); got != want {
			t.Errorf("option %d is %q; want %q", code, got, want)
		}
	}
	for _, code := range []uint8{43, 60, 66, 67, 97} {
		if a.Options.Has(dhcpv4.GenericOptionCode(code)) {
			t.Errorf("Linux gets option %d", code)
		}
	}
}

// TestBootStages: firmware, iPXE and Linux on one board have one address, with
// what each is to load.
func TestBootStages(t *testing.T) {
	r := newRig(t, inFull)
	uefi := firmware(classPXE, X64)
	for i, c := range []struct {
		with []dhcpv4.Modifier
		want string
	}{
		{[]dhcpv4.Modifier{uefi}, "ipxe.efi"},
		{[]dhcpv4.Modifier{uefi, option(77, "iPXE"), option(61, "\x01ipxe")}, "http://10.0.0.1/boot.ipxe"},
		{[]dhcpv4.Modifier{option(61, "\xffother")}, ""},
	} {
		with := append(c.with, xid(byte(i)))
		o, _ := r.ask(packet(t, boardMAC, dhcpv4.MessageTypeDiscover, with...), serverPort)
		a, _ := r.ask(packet(t, boardMAC, dhcpv4.MessageTypeRequest, append(with, asking("10.0.0.100"), choosing("10.0.0.1"))...), serverPort)
		for _, p := range []*dhcpv4.DHCPv4{o, a} {
			if p == nil || p.YourIPAddr.String() != "10.0.0.100" || p.BootFileName != c.want {
				t.Errorf("stage %d: %s; want 10.0.0.100 and %q", i, dump(p), c.want)
			}
		}
	}
	if got := r.kinds(); got != "discover offer lease boot discover offer lease boot discover offer lease" {
		t.Errorf("the events are %s", got)
	}
}

// TestRequests has the uses of REQUEST, RFC 2131, table 4, by a board that has
// 10.0.0.100 and beside one that has 10.0.0.101.
func TestRequests(t *testing.T) {
	for _, c := range []struct {
		name string
		with []dhcpv4.Modifier
		want string
	}{
		{"selecting", []dhcpv4.Modifier{asking("10.0.0.100"), choosing("10.0.0.1")}, "ACK 10.0.0.100 to 255.255.255.255:68"},
		{"after a reboot", []dhcpv4.Modifier{asking("10.0.0.100")}, "ACK 10.0.0.100 to 255.255.255.255:68"},
		{"renewing", []dhcpv4.Modifier{having("10.0.0.100")}, "ACK 10.0.0.100 to 10.0.0.100:68"},
		{"to another server", []dhcpv4.Modifier{asking("10.0.0.100"), choosing("10.0.0.9")}, "none"},
		{"a free one", []dhcpv4.Modifier{asking("10.0.0.102")}, "ACK 10.0.0.102 to 255.255.255.255:68"},
		{"another board's", []dhcpv4.Modifier{asking("10.0.0.101")}, "NAK 0.0.0.0 to 255.255.255.255:68"},
		{"renewing another board's", []dhcpv4.Modifier{having("10.0.0.101")}, "NAK 0.0.0.0 to 255.255.255.255:68"},
		{"a static one of another", []dhcpv4.Modifier{asking("10.0.0.7")}, "NAK 0.0.0.0 to 255.255.255.255:68"},
		{"outside of the pool", []dhcpv4.Modifier{asking("10.0.0.200")}, "NAK 0.0.0.0 to 255.255.255.255:68"},
		{"of another network", []dhcpv4.Modifier{asking("192.168.1.5")}, "NAK 0.0.0.0 to 255.255.255.255:68"},
		{"none", nil, "NAK 0.0.0.0 to 255.255.255.255:68"},
		{"by a relay", []dhcpv4.Modifier{asking("10.0.0.100"), dhcpv4.WithGatewayIP(net.IPv4(10, 0, 0, 3))}, "ACK 10.0.0.100 to 10.0.0.3:67"},
		{"by a relay of elsewhere", []dhcpv4.Modifier{asking("10.0.0.100"), dhcpv4.WithGatewayIP(net.IPv4(10, 9, 0, 3))}, "none"},
	} {
		r := newRig(t, func(c *Config) {
			inFull(c)
			c.Statics = []Static{{mac(9), netip.MustParseAddr("10.0.0.7"), ""}}
		})
		r.take(mac(1))
		r.take(mac(2))
		a, reply := r.ask(packet(t, mac(1), dhcpv4.MessageTypeRequest, c.with...), serverPort)
		got := "none"
		if a != nil {
			got = fmt.Sprintf("%v %v to %v", a.MessageType(), a.YourIPAddr, reply.To)
		}
		if got != c.want {
			t.Errorf("%s: %s; want %s", c.name, got, c.want)
		}
	}
}

// TestPool fills the pool, and has addresses come back by RELEASE, DECLINE and time.
func TestPool(t *testing.T) {
	r := newRig(t, inFull)
	for i, want := range []string{"10.0.0.100", "10.0.0.101", "10.0.0.102", ""} {
		if got := r.take(mac(byte(i))); got != want {
			t.Errorf("board %d gets %q; want %q", i, got, want)
		}
		r.now = r.now.Add(time.Second)
	}
	if got := r.kinds(); !strings.HasSuffix(got, "discover exhausted") {
		t.Errorf("the events end with %s; want exhausted", got)
	}
	if got := r.take(mac(1)); got != "10.0.0.101" {
		t.Errorf("board 1 again gets %q; want its own", got)
	}
	r.ask(packet(t, mac(1), dhcpv4.MessageTypeRelease, having("10.0.0.102"), choosing("10.0.0.1")), serverPort) // not its own
	if got := r.take(mac(3)); got != "" {
		t.Errorf("after a RELEASE by a stranger board 3 gets %q", got)
	}
	r.ask(packet(t, mac(1), dhcpv4.MessageTypeRelease, having("10.0.0.101"), choosing("10.0.0.1")), serverPort)
	if got := r.take(mac(3)); got != "10.0.0.101" {
		t.Errorf("after a RELEASE board 3 gets %q; want that address", got)
	}
	r.ask(packet(t, mac(3), dhcpv4.MessageTypeDecline, asking("10.0.0.101"), choosing("10.0.0.1")), serverPort)
	if got := r.take(mac(3)); got != "" {
		t.Errorf("a declined address is given again: %q", got)
	}
	r.now = r.now.Add(time.Hour + time.Minute)
	if got := r.take(mac(5)); got != "10.0.0.100" {
		t.Errorf("when all expired, board 5 gets %q; want the one that is unused the longest", got)
	}
	if got := r.take(mac(2)); got != "10.0.0.102" {
		t.Errorf("board 2 gets %q; want the one that it had", got)
	}
	for _, l := range r.s.Leases() {
		if l.MAC == mac(0) {
			t.Errorf("board 0 still has %+v, which is board 5's", l)
		}
	}
}

// TestOffersAreKept: two boards at the same time are not offered one address, and
// an offer that nobody takes is free again.
func TestOffersAreKept(t *testing.T) {
	r := newRig(t, inFull)
	offered := func(n byte) string {
		o, _ := r.ask(packet(t, mac(n), dhcpv4.MessageTypeDiscover), serverPort)
		if o == nil {
			return ""
		}
		return o.YourIPAddr.String()
	}
	if a, b, again := offered(1), offered(2), offered(1); a == b || a != again {
		t.Errorf("the offers are %s, %s and %s; want two addresses", a, b, again)
	}
	offered(3)
	if got := offered(4); got != "" {
		t.Errorf("a fourth board is offered %s", got)
	}
	r.now = r.now.Add(2 * offerTime)
	if got := offered(4); got == "" {
		t.Error("what was offered and not taken is never free again")
	}
}

func TestInform(t *testing.T) {
	r := newRig(t, inFull)
	a, reply := r.ask(packet(t, mac(1), dhcpv4.MessageTypeInform, having("10.0.0.50")), serverPort)
	if a == nil || !a.YourIPAddr.IsUnspecified() || a.Options.Has(dhcpv4.OptionIPAddressLeaseTime) || a.SubnetMask() == nil || reply.To.String() != "10.0.0.50:68" {
		t.Errorf("INFORM is answered to %v with %s; want settings without an address", reply.To, dump(a))
	}
	if a, _ = r.ask(packet(t, mac(1), dhcpv4.MessageTypeInform, having("10.9.0.50")), serverPort); a != nil {
		t.Errorf("INFORM of another network is answered with %s", dump(a))
	}
}

// TestRestart: leases and declined addresses outlast the program.
func TestRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "leases.json")
	with := func(c *Config) { inFull(c); c.LeaseFile = file }
	r := newRig(t, with)
	r.take(mac(1))
	r.take(mac(2))
	r.ask(packet(t, mac(1), dhcpv4.MessageTypeDecline, asking("10.0.0.100"), choosing("10.0.0.1")), serverPort)
	want := fmt.Sprint(r.s.Leases())
	r = newRig(t, with)
	if got := fmt.Sprint(r.s.Leases()); got != want {
		t.Errorf("after a restart the leases are\n%s; want\n%s", got, want)
	}
	if got := r.take(mac(3)); got != "10.0.0.102" {
		t.Errorf("a new board gets %q; want the one that is free", got)
	}
	if got := r.take(mac(2)); got != "10.0.0.101" {
		t.Errorf("board 2 gets %q; want the one that it had", got)
	}
	// Settings that have changed count more than the file.
	r = newRig(t, func(c *Config) {
		with(c)
		c.Statics = []Static{{mac(7), netip.MustParseAddr("10.0.0.101"), ""}}
	})
	if got := r.take(mac(7)); got != "10.0.0.101" {
		t.Errorf("the new static lease is %q", got)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("the directory has %q; want the leases alone", left)
	}
}

// TestNoRoomForLeases: what cannot be kept is not given out.
func TestNoRoomForLeases(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	r := newRig(t, func(c *Config) { inFull(c); c.LeaseFile = filepath.Join(dir, "leases.json") })
	a, _ := r.ask(packet(t, mac(1), dhcpv4.MessageTypeRequest, asking("10.0.0.100")), serverPort)
	if a != nil || r.kinds() != "failed" {
		t.Errorf("the answer is %s; want none, and an event", dump(a))
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := r.take(mac(1)); got != "10.0.0.100" {
		t.Errorf("with room again the board gets %q", got)
	}
}

func TestDamagedLeases(t *testing.T) {
	for text, want := range map[string]string{
		"{":             "unexpected end of JSON input",
		`{"version":2}`: "it has version 2, and this program reads 1",
		`{"version":1,"leases":[{"mac":"x","address":"10.0.0.1"}]}`:                `"x" is no Ethernet address`,
		`{"version":1,"leases":[{"mac":"02:00:00:00:00:01","address":"fe80::1"}]}`: "is not IPv4",
	} {
		file := filepath.Join(t.TempDir(), "leases.json")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		c := Config{Interface: "eth0", ServerIP: serverIP, LeaseFile: file}
		inFull(&c)
		_, err := New(c)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v; want %q and the file's name", text, err, want)
		}
	}
}
