package dhcp

import (
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Boot decides what boards load. Its methods are called from one goroutine at a
// time and must not block.
type Boot interface {
	// Offer says what a client is offered; false is a board that is held or not
	// known, which gets no boot options and from a proxy no answer at all. It is
	// not asked for Stage Linux. Client.Server is the address to use in a URL.
	Offer(Client) (Target, bool)
	// Targets are all that may be offered and can be looked for at the start.
	Targets() []Target
}

// Target is what a client loads.
type Target struct {
	// File is the name for TFTP. A Raspberry Pi needs none: its names are fixed.
	File string
	// URL is for iPXE, which prefers it to File, and for HTTP boot, which needs it.
	URL string
}

// name is the boot file for a stage; it may be empty for a Pi alone.
func (t Target) name(s Stage) string {
	switch {
	case s == HTTP || s == IPXE && t.URL != "":
		return t.URL
	default:
		return t.File
	}
}

func (t Target) String() string {
	if t.URL != "" {
		return t.URL
	}
	return t.File
}

// Sub-options of option 43 of PXE clients, PXE 2.1, table 2-1, and the Raspberry
// Pi's own use of them.
const (
	pxeDiscoveryControl = 6
	pxeBootServers      = 8
	pxeBootMenu         = 9
	pxeMenuPrompt       = 10
	pxeEnd              = 255

	// piMenu is what a Pi looks for in option 43; with none of it, the offer is
	// not for it.
	piMenu = "Raspberry Pi Boot"
)

// bootOptions puts into a reply what the client loads. p is the request's answer,
// c who asked.
func bootOptions(p *dhcpv4.DHCPv4, c Client, t Target, server netip.Addr) {
	file, ip := t.name(c.Stage), server.String()
	p.ServerIPAddr = net.IP(server.AsSlice())
	p.BootFileName = ""
	if len(file) < 128 { // the header's field; some ROMs read it alone
		p.BootFileName = file
	}
	if file != "" {
		p.UpdateOption(dhcpv4.OptBootFileName(file))
	}
	switch c.Stage {
	case HTTP:
		// UEFI 2.10, 24.7.2.1: an offer without this class is no one for HTTP boot.
		p.UpdateOption(dhcpv4.OptClassIdentifier(classHTTP))
		return
	case RaspberryPi:
		p.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, piOption43(server)))
	default:
		// Bit 3: load the boot file of this very offer, with no menu and no
		// further search for boot servers.
		p.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, []byte{pxeDiscoveryControl, 1, 8, pxeEnd}))
	}
	p.UpdateOption(dhcpv4.OptClassIdentifier(classPXE))
	// A Pi 3B takes this only as a dotted address, and takes it in place of the
	// packet's source since it comes behind option 43.
	p.UpdateOption(dhcpv4.OptTFTPServerName(ip))
}

// piOption43 is a menu of one entry, in the form and order in which Pis have got
// it from dnsmasq for years: no broadcast or multicast search, a prompt, this
// server, the entry.
func piOption43(server netip.Addr) []byte {
	const kind = "\x80\x00" // a boot server type of the vendor's range
	b := []byte{pxeDiscoveryControl, 1, 3, pxeMenuPrompt, 4, 0, 'P', 'X', 'E', pxeBootServers, 7}
	b = append(append(append(b, kind...), 1), server.AsSlice()...)
	b = append(append(b, pxeBootMenu, byte(len(kind)+1+len(piMenu))), kind...)
	b = append(append(b, byte(len(piMenu))), piMenu...)
	return append(b, pxeEnd)
}
