package dhcp

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// TestLog has the lines of a board's way from firmware to Linux.
func TestLog(t *testing.T) {
	var b bytes.Buffer
	log := Logger(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	r := newRig(t, func(c *Config) { inFull(c); c.OnEvent = log })
	uefi := firmware(classPXE, X64)
	r.ask(packet(t, boardMAC, dhcpv4.MessageTypeDiscover, uefi), serverPort)
	r.ask(packet(t, boardMAC, dhcpv4.MessageTypeRequest, uefi, asking("10.0.0.100"), choosing("10.0.0.1")), serverPort)
	r.ask(packet(t, boardMAC, dhcpv4.MessageTypeRequest, uefi), pxePort)
	r.ask(packet(t, boardMAC, dhcpv4.MessageTypeRequest, option(12, "kit\nchen"), asking("10.0.0.100")), serverPort)
	r.ask(packet(t, boardMAC, dhcpv4.MessageTypeRequest, asking("10.9.0.1")), serverPort)
	r.ask(packet(t, boardMAC, dhcpv4.MessageTypeRequest, uefi, asking("10.0.0.100"), choosing("10.0.0.9")), serverPort)
	r.ask(packet(t, boardMAC, dhcpv4.MessageTypeDiscover, dhcpv4.WithGatewayIP(net.IPv4(10, 9, 0, 3))), serverPort) // at debug alone
	r.s.Answer(Request{Data: []byte{1}, Port: serverPort, From: netip.MustParseAddrPort("10.0.0.9:68")})            // at debug alone
	log(Event{Kind: Failed, Err: errors.New("disk full"), Detail: "no answer"})
	const who = ` mac=02:00:00:00:00:42 stage=pxe arch="x86-64 UEFI" uuid=01020304-0506-0708-090a-0b0c0d0e0f10`
	want := strings.Join([]string{
		`level=INFO msg="dhcp discover"` + who,
		`level=INFO msg="dhcp offer"` + who + ` address=10.0.0.100 target=ipxe.efi`,
		`level=INFO msg="dhcp lease"` + who + ` address=10.0.0.100 target=ipxe.efi`,
		`level=INFO msg="dhcp boot"` + who + ` address=10.0.0.100 target=ipxe.efi`,
		`level=INFO msg="dhcp boot"` + who + ` target=ipxe.efi port=4011`,
		`level=INFO msg="dhcp lease" mac=02:00:00:00:00:42 stage=linux host=kitchen address=10.0.0.100`,
		`level=WARN msg="dhcp refused" mac=02:00:00:00:00:42 stage=linux address=10.9.0.1 detail="it is of another network"`,
		`level=WARN msg="dhcp elsewhere"` + who + ` detail="it chose another server's offer: two DHCP servers are on this network; stop the other one, or run this one as a proxy"`,
		`level=ERROR msg="dhcp failed" detail="no answer" error="disk full"`,
	}, "\n") + "\n"
	if b.String() != want {
		t.Errorf("the log is\n%s; want\n%s", b.String(), want)
	}
}
