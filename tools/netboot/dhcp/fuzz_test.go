package dhcp

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"machined/tools/netboot/pirom"
)

// FuzzAnswer has a full server and a proxy answer any bytes. What they send is
// always the answer to that client, and a proxy gives out nothing.
func FuzzAnswer(f *testing.F) {
	for _, p := range [][]byte{nil, make([]byte, 240), pirom.Board{MAC: piMAC, Serial: 1}.Discover(),
		packet(f, boardMAC, dhcpv4.MessageTypeDiscover, firmware(classPXE, X64)).ToBytes(),
		packet(f, boardMAC, dhcpv4.MessageTypeRequest, firmware(classHTTP, HTTPX64), asking("10.0.0.100")).ToBytes(),
		packet(f, boardMAC, dhcpv4.MessageTypeDecline, asking("10.0.0.100"), choosing("10.0.0.1")).ToBytes(),
		packet(f, boardMAC, dhcpv4.MessageTypeInform, option(77, "\xffiPXE"), having("10.0.0.5")).ToBytes()} {
		f.Add(p)
	}
	from := netip.MustParseAddrPort("10.0.0.77:4711")
	f.Fuzz(func(t *testing.T, data []byte) {
		full, proxy := newRig(t, inFull), newRig(t, nil)
		for _, r := range []*rig{full, proxy} {
			for _, port := range []uint16{serverPort, pxePort} {
				reply, ok := r.s.Answer(Request{Data: bytes.Clone(data), Port: port, From: from})
				if !ok {
					continue
				}
				p, err := dhcpv4.FromBytes(reply.Data)
				if err != nil || !reply.To.IsValid() || reply.To.Port() == 0 || reply.From != serverIP {
					t.Fatalf("the answer to %v by %v: %v", reply.To, reply.From, err)
				}
				if p.OpCode != dhcpv4.OpcodeBootReply || !bytes.Equal(p.TransactionID[:], data[4:8]) || !bytes.Equal(p.ClientHWAddr, data[28:34]) {
					t.Errorf("%s is no answer to that client", p.Summary())
				}
				own, _ := netip.AddrFromSlice(p.YourIPAddr.To4())
				if r == proxy && (!own.IsUnspecified() || p.Options.Has(dhcpv4.OptionIPAddressLeaseTime)) {
					t.Errorf("the proxy gives out an address: %s", p.Summary())
				}
				if !own.IsUnspecified() && !r.s.c.inPool(own) {
					t.Errorf("%v is not in the pool", own)
				}
			}
		}
	})
}

func FuzzLeases(f *testing.F) {
	f.Add([]byte(`{"version":1,"leases":[{"mac":"02:00:00:00:00:01","address":"10.0.0.100","expires":"2026-03-01T12:00:00Z"}]}`))
	f.Add([]byte(`{"version":1,"leases":[{"mac":"02:00:00:00:00:01","address":"10.0.0.100","declined":true},{"address":"10.0.0.100"}]}`))
	c := Config{ServerIP: serverIP}
	inFull(&c)
	f.Fuzz(func(t *testing.T, data []byte) {
		leases, err := parseLeases(data)
		if err != nil {
			return
		}
		for _, l := range newBook(&c, leases).list() {
			if !c.inPool(l.Address) {
				t.Errorf("%+v is taken over", l)
			}
		}
	})
}
