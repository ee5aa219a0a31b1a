package registry

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestSameSerial(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"b22faaeb", "00000000b22faaeb", true},
		{"10000000B22FAAEB", "b22faaeb", true},
		{"10000000b22faaeb", "00000000b22faaeb", false},
		{"b22faaeb", "B22FAAEB", true},
		{"PF1abcde", "12345678PF1abcde", false},
		{"b22faaeb", "0b22faaeb", false},
		{"", "", false},
		{"PF1", "", false},
		{"", "0000000000000000", false},
	} {
		if got, back := SameSerial(c.a, c.b), SameSerial(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("SameSerial(%q, %q) = %v, and %v the other way; want %v", c.a, c.b, got, back, c.want)
		}
	}
}

// TestSerialForms: the page and the config have the longer form once it is known,
// whoever tells the other one.
func TestSerialForms(t *testing.T) {
	l := newLab(t, Accept)
	l.Consoles = map[string]string{"00000000b22faaeb": "telnet://10.0.0.5:2001"}
	l.Ask(Facts{MAC: mac, Address: address, Serial: "b22faaeb"})
	if b := l.board(); b.Console == "" {
		t.Error("the board has no console, which was named by the longer form")
	}
	for range 2 {
		if _, _, err := l.Enroll(Enrolment{Token: l.ask(), Nonce: "n", Facts: Facts{Serial: "00000000b22faaeb"}}); err != nil {
			t.Fatal(err)
		}
		l.Ask(Facts{MAC: mac, Address: address, Serial: "b22faaeb"})
		if b := l.board(); b.Serial != "00000000b22faaeb" {
			t.Errorf("the serial number is %q; want the longer form", b.Serial)
		}
	}
	l.Ask(Facts{MAC: mac, Address: address, Serial: "12345678"}) // another computer behind the same MAC
	if b := l.board(); b.Serial != "12345678" {
		t.Errorf("the serial number is %q; want the new one", b.Serial)
	}
}

// TestProxyAt: where another server gives out addresses, whose one is is known by the
// link alone, and it may have been another board's.
func TestProxyAt(t *testing.T) {
	l := newLab(t, Accept)
	const other = "52:54:00:00:00:02"
	l.Ask(Facts{MAC: mac, Name: "rpi-3a-plus", Address: address})
	l.Ask(Facts{MAC: other, Name: "x86_64-uefi"}) // a proxy sees no address
	l.Neighbour = func(netip.Addr) string { return other }
	if b, ok := l.At(address); !ok || b.Name != "x86_64-uefi" {
		t.Errorf("At() = %+v, %v; want the board that has the address now", b, ok)
	}
	l.Neighbour = func(netip.Addr) string { return "52:54:00:00:00:03" }
	if b, ok := l.At(address); ok {
		t.Errorf("At() = %+v for a machine that never asked; want none", b)
	}
	l.Neighbour = func(netip.Addr) string { return "" } // behind a router
	if b, ok := l.At(address); !ok || b.MAC != mac {
		t.Errorf("At() = %+v, %v without the link; want the board that had it last", b, ok)
	}
}

// TestHeldForLong: who decides may be on holiday. A token that comes late and that no
// node has shown yet is refused, and the board's line says so.
func TestHeldForLong(t *testing.T) {
	l := newLab(t, Hold)
	n := Enrolment{Token: l.ask(), Nonce: "n"}
	for range 3 {
		if _, _, err := l.Enroll(n); !errors.Is(err, ErrHeld) {
			t.Fatalf("Enroll = %v; want it held", err)
		}
		l.now = l.now.Add(2 * tokenLife)
		l.restart(Hold)
	}
	if err := l.Decide(l.board().ID, Accept); err != nil {
		t.Fatal(err)
	}
	if _, session, err := l.Enroll(n); err != nil || session == "" {
		t.Errorf("Enroll of the accepted board = %q, %v", session, err)
	}
	n = Enrolment{Token: l.ask(), Nonce: "m"}
	l.now = l.now.Add(tokenLife + time.Minute)
	if _, _, err := l.Enroll(n); !errors.Is(err, ErrToken) {
		t.Errorf("Enroll with a token that nobody has shown for an hour = %v; want %v", err, ErrToken)
	}
	if b := l.board(); !strings.Contains(b.Error, "1h1m") || !strings.Contains(b.Error, "too old") {
		t.Errorf("the board is %+v; want it told that its token is too old", b)
	}
}

// TestClaims: what a node says of itself while it enrolls makes no known board of a
// stranger. What the link and the firmware tell does.
func TestClaims(t *testing.T) {
	const serial, uuid = "00000000b22faaeb", "03020100-0504-0706-0809-0a0b0c0d0e0f"
	known := func(b Board) bool {
		return b.MAC == "02:00:00:00:00:99" || SameSerial(b.Serial, serial) || b.UUID == uuid
	}
	for _, c := range []struct {
		what    string
		unknown Decision
		asks    Facts
		tftp    string // serial number in the names that it asks for
		claims  Enrolment
		want    error
	}{
		{"a claimed serial", Hold, Facts{MAC: mac}, "", Enrolment{Facts: Facts{Serial: serial}}, ErrHeld},
		{"a claimed UUID", Hold, Facts{MAC: mac}, "", Enrolment{Facts: Facts{UUID: uuid}}, ErrHeld},
		{"a claimed MAC", Hold, Facts{}, "", Enrolment{MACs: []string{"02:00:00:00:00:99"}}, ErrHeld},
		{"a UUID of the firmware", Hold, Facts{MAC: mac, UUID: uuid}, "", Enrolment{Facts: Facts{Serial: "PC1"}}, nil},
		{"the same, told in another order later", Hold, Facts{MAC: mac, UUID: uuid}, "", Enrolment{Facts: Facts{UUID: "00010203-0405-0607-0809-0a0b0c0d0e0f"}}, nil},
		{"a Pi's serial by DHCP", Hold, Facts{MAC: mac, Serial: "b22faaeb"}, "", Enrolment{Facts: Facts{Serial: serial}}, nil},
		{"a Pi's serial by TFTP", Hold, Facts{MAC: mac}, "b22faaeb", Enrolment{Facts: Facts{Serial: serial}}, nil},
		{"a known MAC", Hold, Facts{MAC: "02:00:00:00:00:99"}, "", Enrolment{}, nil},
		{"everybody is welcome", Accept, Facts{MAC: mac}, "", Enrolment{Facts: Facts{Serial: serial}}, nil},
	} {
		l := newLab(t, c.unknown)
		l.Known = known
		c.asks.Address = address
		l.Ask(c.asks)
		l.Transferred(Transfer{Address: address, Serial: c.tftp, File: "f", Total: 1})
		var err error
		if c.claims.Token, err = l.Token(address); err != nil {
			t.Fatal(err)
		}
		c.claims.Nonce, c.claims.Address = "n", address
		for _, when := range []string{"first", "again", "after a restart"} {
			if when == "after a restart" {
				l.restart(c.unknown)
				l.Known = known
			}
			b, _, err := l.Enroll(c.claims)
			if !errors.Is(err, c.want) || b.Serial == "" && c.claims.Serial != "" {
				t.Errorf("%s, %s: Enroll = %+v, %v; want %v", c.what, when, b, err, c.want)
			}
		}
		if c.want == nil {
			continue
		}
		if b := l.board(); !strings.Contains(b.Message, "accept it if that is true") {
			t.Errorf("%s: the board is %+v; want its line to say why", c.what, b)
		}
		if _, answered := l.Ask(c.asks); !answered || l.board().Known {
			t.Errorf("%s: at its next boot the board is known by what its node claimed", c.what)
		}
		if err := l.Decide(l.board().ID, Accept); err != nil {
			t.Fatal(err)
		}
		if b, _, err := l.Enroll(c.claims); err != nil || b.Serial != c.claims.Serial {
			t.Errorf("%s: Enroll of the accepted board = %+v, %v", c.what, b, err)
		}
	}
}
