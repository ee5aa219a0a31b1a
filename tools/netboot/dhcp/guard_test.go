package dhcp

import (
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// TestIPXEForIPXE: iPXE that would be given iPXE again gets nothing, and that is
// said once.
func TestIPXEForIPXE(t *testing.T) {
	for _, target := range []Target{{File: "ipxe.efi"}, {URL: "http://SERVER/ipxe.efi"}} {
		r := newRig(t, inFull)
		r.boot.targets[IPXE] = target
		uefi := firmware(classPXE, X64)
		r.ask(packet(t, boardMAC, dhcpv4.MessageTypeDiscover, uefi, xid(1)), serverPort)
		for i := range byte(3) {
			p, _ := r.ask(packet(t, boardMAC, dhcpv4.MessageTypeDiscover, uefi, option(77, "iPXE"), xid(2+i)), serverPort)
			if p == nil || p.BootFileName != "" || p.Options.Has(dhcpv4.OptionBootfileName) || p.YourIPAddr.IsUnspecified() {
				t.Errorf("%v: iPXE is answered %s; want an address alone", target, dump(p))
			}
		}
		detail := r.events[3].Detail
		if got := r.kinds(); got != "discover offer discover loop offer discover offer discover offer" || !strings.Contains(detail, "offer iPXE a script") {
			t.Errorf("%v: the events are %s, %q; want one loop", target, got, detail)
		}
		// Whoever starts iPXE by other means may have it load that.
		r.now = r.now.Add(2 * loopWindow)
		if p, _ := r.ask(packet(t, boardMAC, dhcpv4.MessageTypeDiscover, uefi, option(77, "iPXE"), xid(9)), serverPort); p.BootFileName == "" {
			t.Errorf("%v: later iPXE is answered %s", target, dump(p))
		}
	}
}

// TestSameStageAgain: a board that begins a stage too often is left alone until it
// was quiet for a minute.
func TestSameStageAgain(t *testing.T) {
	r := newRig(t, func(c *Config) { c.LoopLimit = 3 })
	n := byte(0)
	begin := func() bool {
		n++
		p, _ := r.ask(packet(t, boardMAC, dhcpv4.MessageTypeDiscover, firmware(classPXE, X64), xid(n)), serverPort)
		return p != nil
	}
	for i := range 6 {
		if got, want := begin(), i < 3; got != want {
			t.Errorf("attempt %d is answered: %v; want %v", i+1, got, want)
		}
		r.now = r.now.Add(5 * time.Second)
	}
	if got := strings.Count(r.kinds(), "loop"); got != 1 {
		t.Errorf("the loop is told %d times; want once", got)
	}
	// The same board's next stage, another board, and port 4011 are not the loop.
	if p, _ := r.ask(packet(t, boardMAC, dhcpv4.MessageTypeDiscover, firmware(classPXE, X64), option(77, "iPXE")), serverPort); p == nil {
		t.Error("the next stage gets no answer")
	}
	if p, _ := r.ask(packet(t, mac(1), dhcpv4.MessageTypeDiscover, firmware(classPXE, X64)), serverPort); p == nil {
		t.Error("another board gets no answer")
	}
	r.now = r.now.Add(loopWindow)
	if !begin() {
		t.Error("after a quiet minute the board gets no answer")
	}
}

// TestRetriesAreNoLoop: a DISCOVER that is sent again, and a Pi, that does nothing
// else.
func TestRetriesAreNoLoop(t *testing.T) {
	r := newRig(t, func(c *Config) { c.LoopLimit = 2 })
	for range 20 {
		if p, _ := r.ask(packet(t, boardMAC, dhcpv4.MessageTypeDiscover, firmware(classPXE, X64)), serverPort); p == nil {
			t.Fatal("the same DISCOVER again gets no answer")
		}
	}
	for i := range byte(20) {
		if p, _ := r.ask(packet(t, piMAC, dhcpv4.MessageTypeDiscover, firmware(classPXE, BIOS), xid(i)), serverPort); p == nil {
			t.Fatal("a Pi gets no answer")
		}
	}
}

// TestGuardIsBounded: invented boards do not fill the memory.
func TestGuardIsBounded(t *testing.T) {
	g, now := newGuard(1), time.Unix(1, 0)
	for i := range maxRemembered + 100 {
		now = now.Add(time.Millisecond)
		g.of(MAC{2, 0, 0, byte(i >> 16), byte(i >> 8), byte(i)}, now)
	}
	if n := len(g.recent); n > maxRemembered {
		t.Errorf("%d boards are remembered; want %d at most", n, maxRemembered)
	}
}
