package pirom

import (
	"errors"
	"net/netip"
	"testing"
	"time"
)

// TestDiscover compares with what was recorded: 322 bytes with the options in this
// order.
func TestDiscover(t *testing.T) {
	p := Board{MAC: [6]byte{0xb8, 0x27, 0xeb, 0x64, 0x24, 0x7d}, Serial: 0x5564247d}.Discover()
	if len(p) != 322 {
		t.Errorf("DISCOVER is of %d bytes; want 322", len(p))
	}
	const want = "c\x82Sc5\x01\x017\x0e+<C\x80\x81\x82\x83\x84\x85\x86\x87B\x01\x03]\x02\x00\x00^\x03\x01\x02\x01a\x11\x00" +
		"\x7d\x24\x64\x55\x7d\x24\x64\x55\x7d\x24\x64\x55\x7d\x24\x64\x55<\x20PXEClient:Arch:00000:UNDI:002001\xff"
	if got := string(p[236:]); got != want {
		t.Errorf("the options are\n%q; want\n%q", got, want)
	}
}

// offer is one with that address and those options.
func offer(own byte, options string) []byte {
	p := append(Board{}.Discover()[:236:236], "c\x82Sc5\x01\x02"+options+"\xff"...)
	p[0] = 2
	if own > 0 {
		copy(p[16:], []byte{10, 0, 0, own})
	}
	return p
}

func TestHear(t *testing.T) {
	one, two := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	const menu, name = "+\x14Raspberry Pi Boot   ", "B\x0810.0.0.9"
	noise := func(after time.Duration) Arrival { return Arrival{after, two, []byte("anything")} }
	const ms = time.Millisecond
	for _, c := range []struct {
		name   string
		heard  []Arrival
		server string
		err    error
	}{
		{"silence", nil, "", ErrNoSetup},
		{"an offer, and silence", []Arrival{{5 * ms, one, offer(50, menu)}}, "", ErrGaveUp},
		{"woken in time", []Arrival{{5 * ms, one, offer(50, menu)}, noise(600 * ms), noise(1200 * ms)}, "10.0.0.1", nil},
		{"woken once", []Arrival{{5 * ms, one, offer(50, menu)}, noise(600 * ms)}, "", ErrGaveUp},
		{"woken late", []Arrival{{5 * ms, one, offer(50, menu)}, noise(1200 * ms)}, "", ErrGaveUp},
		{"no option 43", []Arrival{{5 * ms, one, offer(50, "")}, noise(600 * ms), noise(1200 * ms)}, "", ErrNoSetup},
		{"option 66 is later", []Arrival{{5 * ms, one, offer(50, menu+name)}, noise(600 * ms), noise(1200 * ms)}, "10.0.0.9", nil},
		{"option 66 is a name", []Arrival{{5 * ms, one, offer(50, menu+"B\x05board")}, noise(600 * ms), noise(1200 * ms)}, "10.0.0.1", nil},
		{"padding before it", []Arrival{{5 * ms, one, offer(50, "\x00"+menu)}, noise(600 * ms), noise(1200 * ms)}, "", ErrNoSetup},
		{"a proxy", []Arrival{{5 * ms, one, offer(50, "")}, {6 * ms, two, offer(0, menu)}, noise(600 * ms), noise(1200 * ms)}, "10.0.0.2", nil},
	} {
		got, err := Hear(c.heard)
		if !errors.Is(err, c.err) || err == nil && (got.Server.String() != c.server || got.Address.String() != "10.0.0.50") {
			t.Errorf("%s: %v, %v; want %s, %v", c.name, got, err, c.server, c.err)
		}
	}
}

func FuzzHear(f *testing.F) {
	f.Add(offer(50, "+\x14Raspberry Pi Boot   "))
	f.Add(offer(50, "B\xff"))
	f.Fuzz(func(t *testing.T, p []byte) {
		s, err := Hear([]Arrival{{Data: p}, {After: patience, Data: p}})
		if err == nil && !s.Address.IsValid() {
			t.Errorf("%q gives %v", p, s)
		}
	})
}
