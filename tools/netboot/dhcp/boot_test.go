package dhcp

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"machined/tools/netboot/pirom"
)

const (
	offer   = "OFFER siaddr=10.0.0.1 "
	ack     = "ACK siaddr=10.0.0.1 "
	common  = " 54=0a000001 60=PXEClient 66=10.0.0.1 "
	direct  = "43=060108ff"
	pxeFile = "file=ipxe.efi " + direct + common + "67=ipxe.efi 97=17 bytes"
	// piMenuHex is option 43 for a Pi: 6 is 3, 10 is "\0PXE", 8 is this server as
	// type 0x8000, 9 is "Raspberry Pi Boot" of that type.
	piMenuHex = "060103" + "0a0400505845" + "08078000010a000001" + "091480001152617370626572727920506920426f6f74" + "ff"
)

// TestProxyAnswers has what each kind of client is answered at port 67 and at
// 4011. In both the wrong option makes firmware wait until it gives up.
func TestProxyAnswers(t *testing.T) {
	const http = "file=http://10.0.0.1/node.efi 54=0a000001 60=HTTPClient 67=http://10.0.0.1/node.efi 97=17 bytes"
	pi := "43=" + piMenuHex + common + "97=17 bytes"
	script := "file=http://10.0.0.1/boot.ipxe " + direct + common + "67=http://10.0.0.1/boot.ipxe 97=17 bytes"
	for _, c := range []struct {
		name string
		mac  MAC
		with []dhcpv4.Modifier
		want string // behind the kind of message; empty is no answer
	}{
		{"BIOS", boardMAC, []dhcpv4.Modifier{firmware(classPXE, BIOS)}, pxeFile},
		{"UEFI of 32 bits", boardMAC, []dhcpv4.Modifier{firmware(classPXE, IA32)}, pxeFile},
		{"EDK2, x86-64", boardMAC, []dhcpv4.Modifier{firmware(classPXE, X64)}, pxeFile},
		{"early x86-64", boardMAC, []dhcpv4.Modifier{firmware(classPXE, EBC)}, pxeFile},
		{"EDK2, arm64", boardMAC, []dhcpv4.Modifier{firmware(classPXE, ARM64)}, pxeFile},
		{"no option 97", boardMAC, []dhcpv4.Modifier{firmware(classPXE, X64), without(97)}, strings.TrimSuffix(pxeFile, " 97=17 bytes")},
		{"HTTP, 32 bits", boardMAC, []dhcpv4.Modifier{firmware(classHTTP, HTTPIA32)}, http},
		{"HTTP, x86-64", boardMAC, []dhcpv4.Modifier{firmware(classHTTP, HTTPX64)}, http},
		{"HTTP, arm64", boardMAC, []dhcpv4.Modifier{firmware(classHTTP, HTTPA64)}, http},
		{"HTTP's architecture, PXE's class", boardMAC, []dhcpv4.Modifier{firmware(classPXE, HTTPX64)}, http},
		{"iPXE", boardMAC, []dhcpv4.Modifier{firmware(classPXE, BIOS), option(77, "iPXE")}, script},
		{"iPXE by RFC 3004", boardMAC, []dhcpv4.Modifier{firmware(classPXE, X64), option(77, "\x03foo\x04iPXE")}, script},
		{"iPXE with a class of its own", boardMAC, []dhcpv4.Modifier{firmware(classPXE, X64), option(77, "Thin"), option(175, "\x01\x01\x01")}, script},
		{"iPXE on a Pi", piMAC, []dhcpv4.Modifier{firmware(classPXE, ARM64), option(77, "iPXE")}, script},
		{"a Raspberry Pi", piMAC, []dhcpv4.Modifier{firmware(classPXE, BIOS)}, pi},
		{"a Raspberry Pi with UEFI", piMAC, []dhcpv4.Modifier{firmware(classPXE, ARM64)}, pxeFile},
		{"Linux", boardMAC, nil, ""},
		{"Linux on a Pi", piMAC, []dhcpv4.Modifier{option(60, "udhcp 1.36")}, ""},
		{"another class", boardMAC, []dhcpv4.Modifier{option(60, "MSFT 5.0")}, ""},
	} {
		for _, at := range []struct {
			port   uint16
			kind   dhcpv4.MessageType
			prefix string
		}{{serverPort, dhcpv4.MessageTypeDiscover, offer}, {pxePort, dhcpv4.MessageTypeRequest, ack}, {pxePort, dhcpv4.MessageTypeInform, ack}} {
			got, reply := newRig(t, nil).ask(packet(t, c.mac, at.kind, c.with...), at.port)
			want := at.prefix + c.want
			if c.want == "" {
				want = "none"
			}
			if dump(got) != want {
				t.Errorf("%s, %v at port %d:\ngot  %s\nwant %s", c.name, at.kind, at.port, dump(got), want)
			}
			to := "255.255.255.255:68"
			if at.port == pxePort {
				to = "10.0.0.77:4711" // 4011 answers to where it was asked from
			}
			if got != nil && (reply.To.String() != to || reply.From != serverIP) {
				t.Errorf("%s at port %d: the answer goes from %v to %v; want %s", c.name, at.port, reply.From, reply.To, to)
			}
		}
	}
}

// TestReachedAddress: what a client is given has the address that it used.
func TestReachedAddress(t *testing.T) {
	for to, want := range map[string]string{
		"255.255.255.255": "10.0.0.1", "10.0.0.9": "10.0.0.9", "::ffff:10.0.0.9": "10.0.0.9", "10.0.0.255": "10.0.0.1", "224.0.0.1": "10.0.0.1",
		"0.0.0.0": "10.0.0.1", "2001:db8::1": "10.0.0.1",
	} {
		r := newRig(t, inFull)
		p := packet(t, boardMAC, dhcpv4.MessageTypeRequest, firmware(classPXE, X64), option(77, "iPXE"))
		reply, ok := r.s.Answer(Request{Data: p.ToBytes(), Port: pxePort, To: netip.MustParseAddr(to), From: netip.MustParseAddrPort("10.0.0.77:68")})
		a, err := dhcpv4.FromBytes(reply.Data)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		if a.BootFileName != "http://"+want+"/boot.ipxe" || a.ServerIdentifier().String() != want || a.ServerIPAddr.String() != want || reply.From.String() != want {
			t.Errorf("%s: %s; want %s all over", to, dump(a), want)
		}
	}
}

// TestProxyLeavesTheServerAlone: what is meant for the other server gets no answer.
func TestProxyLeavesTheServerAlone(t *testing.T) {
	fw := firmware(classPXE, X64)
	for _, c := range []struct {
		name string
		p    *dhcpv4.DHCPv4
		want string
	}{
		{"REQUEST to the other", packet(t, boardMAC, dhcpv4.MessageTypeRequest, fw, option(54, "\x0a\x00\x00\xfe")), "none"},
		{"REQUEST that names none", packet(t, boardMAC, dhcpv4.MessageTypeRequest, fw), "none"},
		{"REQUEST to this one", packet(t, boardMAC, dhcpv4.MessageTypeRequest, fw, option(54, "\x0a\x00\x00\x01")), ack + pxeFile},
		{"INFORM", packet(t, boardMAC, dhcpv4.MessageTypeInform, fw), "none"},
		{"RELEASE", packet(t, boardMAC, dhcpv4.MessageTypeRelease, fw), "none"},
	} {
		if got, _ := newRig(t, nil).ask(c.p, serverPort); dump(got) != c.want {
			t.Errorf("%s: %s; want %s", c.name, dump(got), c.want)
		}
	}
}

// TestHeld: a board that is offered nothing gets no answer by a proxy, and a plain
// lease by a full server.
func TestHeld(t *testing.T) {
	discover := packet(t, boardMAC, dhcpv4.MessageTypeDiscover, firmware(classPXE, X64))
	r := newRig(t, nil)
	r.boot.held[boardMAC] = true
	if got, _ := r.ask(discover, serverPort); got != nil {
		t.Errorf("a proxy answers %s; want nothing", dump(got))
	}
	if got := r.kinds(); got != "discover held" {
		t.Errorf("the events are %s; want discover held", got)
	}
	r = newRig(t, inFull)
	r.boot.held[boardMAC] = true
	if got, _ := r.ask(discover, serverPort); dump(got) != "OFFER yiaddr=10.0.0.100 54=0a000001 97=17 bytes" {
		t.Errorf("a full server answers %s; want an address alone", dump(got))
	}
	r.boot.held[boardMAC] = false
	r.boot.targets[PXE] = Target{} // an empty target is none
	if got, _ := r.ask(discover, serverPort); got.Options.Has(dhcpv4.OptionBootfileName) {
		t.Errorf("a target without a name: %s", dump(got))
	}
}

// TestPiROM has the boot ROM of a 3B make of the answers what it does: alone with
// a full server, and with a proxy beside another.
func TestPiROM(t *testing.T) {
	board := pirom.Board{MAC: piMAC, Serial: 0xb22faaeb}
	ask := func(r *rig) []pirom.Arrival {
		reply, ok := r.s.Answer(Request{Data: board.Discover(), Port: serverPort})
		if !ok {
			t.Fatal("the ROM gets no answer")
		}
		var all []pirom.Arrival
		for _, after := range append([]time.Duration{0}, reply.Again...) {
			all = append(all, pirom.Arrival{After: after + 5*time.Millisecond, From: reply.From, Data: reply.Data})
		}
		return all
	}
	full := newRig(t, inFull)
	want := pirom.Setup{Address: netip.MustParseAddr("10.0.0.100"), Server: serverIP}
	if got, err := pirom.Hear(ask(full)); got != want || err != nil {
		t.Errorf("a full server: %v, %v; want %v", got, err, want)
	}
	if c := full.boot.asked[0]; c.Stage != RaspberryPi || c.Serial != "b22faaeb" || c.Arch != BIOS {
		t.Errorf("the client is %+v", c)
	}
	// It takes the offer for a lease and sends no REQUEST: the address is its own.
	full.now = full.now.Add(30 * time.Minute)
	if l := full.s.Leases(); len(l) != 1 || l[0].MAC != piMAC || !l[0].Expires.After(full.now) {
		t.Errorf("half an hour later the leases are %+v; want that of the Pi", l)
	}

	plain, err := dhcpv4.NewReplyFromRequest(must(dhcpv4.FromBytes(board.Discover())), dhcpv4.WithMessageType(dhcpv4.MessageTypeOffer), dhcpv4.WithYourIP(net.IPv4(10, 0, 0, 50)))
	if err != nil {
		t.Fatal(err)
	}
	other := pirom.Arrival{After: 2 * time.Millisecond, From: netip.MustParseAddr("10.0.0.254"), Data: plain.ToBytes()}
	want = pirom.Setup{Address: netip.MustParseAddr("10.0.0.50"), Server: serverIP}
	both := append([]pirom.Arrival{other}, ask(newRig(t, nil))...)
	if got, err := pirom.Hear(both); got != want || err != nil {
		t.Errorf("a proxy beside another server: %v, %v; want %v", got, err, want)
	}
	// Without the repeated answers, it would wait for ever.
	if _, err := pirom.Hear(both[:2]); err != pirom.ErrGaveUp {
		t.Errorf("one answer alone: %v; want %v", err, pirom.ErrGaveUp)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestEEPROMRequest: the EEPROM of a Pi 4 says in DISCOVER alone what it is.
func TestEEPROMRequest(t *testing.T) {
	r := newRig(t, inFull)
	pi4 := MAC{0xdc, 0xa6, 0x32, 1, 2, 3}
	r.ask(packet(t, pi4, dhcpv4.MessageTypeDiscover, firmware(classPXE, BIOS), xid(1)), serverPort)
	request := []dhcpv4.Modifier{xid(1), option(50, "\x0a\x00\x00\x64"), option(54, "\x0a\x00\x00\x01")}
	got, _ := r.ask(packet(t, pi4, dhcpv4.MessageTypeRequest, request...), serverPort)
	if got == nil || !strings.Contains(string(got.Options.Get(dhcpv4.OptionVendorSpecificInformation)), piMenu) {
		t.Errorf("the answer is %s; want the Pi's option 43", dump(got))
	}
	// Linux on the same board is another exchange.
	got, _ = r.ask(packet(t, pi4, dhcpv4.MessageTypeRequest, append(request, xid(2))...), serverPort)
	if got == nil || got.Options.Has(dhcpv4.OptionVendorSpecificInformation) {
		t.Errorf("Linux is answered %s; want no boot options", dump(got))
	}
}

func TestSerial(t *testing.T) {
	for _, c := range []struct {
		name   string
		mac    MAC
		id     string
		serial string
	}{
		{"3B, recorded", MAC{0xb8, 0x27, 0xeb, 0x64, 0x24, 0x7d}, strings.Repeat("\x7d\x24\x64\x55", 4), "5564247d"},
		{"3B that says DDDD", piMAC, strings.Repeat("D", 16), ""},
		{"4, by its EEPROM", MAC{0xdc, 0xa6, 0x32, 1, 2, 3}, "RPi4\x11\x31\xc0\x00\x32\x01\x02\x03\x08\xda\xff\xe1", "e1ffda08"},
		{"5, with a MAC of its own", boardMAC, "RPi5\x11\x31\xc0\x00\x32\x01\x02\x03\x08\xda\xff\xe1", "e1ffda08"},
		{"no Pi", boardMAC, strings.Repeat("\x7d\x24\x64\x55", 4), ""},
		{"a UUID of UEFI on a Pi", piMAC, "0123456789abcdef", ""},
		{"missing", piMAC, "", ""},
	} {
		with := option(97, "\x00"+c.id)
		got, _ := identify(packet(t, c.mac, dhcpv4.MessageTypeDiscover, with), serverIP)
		if got.Serial != c.serial {
			t.Errorf("%s: the serial number is %q; want %q", c.name, got.Serial, c.serial)
		}
	}
}
