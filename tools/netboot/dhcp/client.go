package dhcp

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// MAC is an Ethernet address.
type MAC [6]byte

// ParseMAC reads the usual forms of an Ethernet address.
func ParseMAC(s string) (MAC, error) {
	h, err := net.ParseMAC(s)
	if err != nil || len(h) != 6 {
		return MAC{}, fmt.Errorf("%q is no Ethernet address: it has six bytes, as in b8:27:eb:01:02:03", s)
	}
	return MAC(h), nil
}

func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// MarshalText is for JSON.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText is for JSON.
func (m *MAC) UnmarshalText(b []byte) (err error) {
	*m, err = ParseMAC(string(b))
	return err
}

// Arch is a client's architecture, option 93 of RFC 4578 with the numbers of
// IANA's "Processor Architecture Types".
type Arch uint16

// The architectures that boards of ours have. NoArch is a client that names none.
const (
	BIOS     Arch = 0
	IA32     Arch = 6
	X64      Arch = 7
	EBC      Arch = 9 // named by early x86-64 firmware
	ARM64    Arch = 11
	HTTPIA32 Arch = 15
	HTTPX64  Arch = 16
	HTTPARM  Arch = 18
	HTTPA64  Arch = 19
	NoArch   Arch = 0xffff
)

func (a Arch) http() bool { return a >= HTTPIA32 && a <= HTTPA64 }

func (a Arch) String() string {
	switch a {
	case BIOS:
		return "x86 BIOS"
	case IA32:
		return "x86 UEFI"
	case X64, EBC:
		return "x86-64 UEFI"
	case ARM64:
		return "arm64 UEFI"
	case HTTPIA32:
		return "x86 UEFI HTTP"
	case HTTPX64:
		return "x86-64 UEFI HTTP"
	case HTTPARM:
		return "arm UEFI HTTP"
	case HTTPA64:
		return "arm64 UEFI HTTP"
	case NoArch:
		return "none"
	}
	return strconv.Itoa(int(a))
}

// Stage is what program of a board asks.
type Stage string

// The stages of a boot.
const (
	PXE         Stage = "pxe"          // firmware that loads by TFTP
	HTTP        Stage = "http"         // firmware that loads by HTTP, UEFI 2.10, section 24.7
	IPXE        Stage = "ipxe"         // iPXE, which takes a script
	RaspberryPi Stage = "raspberry-pi" // the Pi's boot ROM, bootcode.bin or EEPROM
	Linux       Stage = "linux"        // all others: a plain lease
)

// Client is who asks, by what it says of itself.
type Client struct {
	MAC   MAC
	Stage Stage
	Arch  Arch
	// UUID is option 97 in the order of its bytes; firmware differs in whether
	// the first three groups are swapped. Empty where it is missing, as with
	// some firmware.
	UUID string
	// Serial is a Raspberry Pi's, eight hex digits, as its TFTP names begin with.
	// Empty where it is unknown: some 3B say "DDDD" in option 97 in its place.
	// On a 3B and 3B+ its last six digits are the last three bytes of the MAC.
	Serial   string
	Hostname string     // option 12, of Linux; printable
	Server   netip.Addr // this server's address that the client reached
}

const (
	classPXE  = "PXEClient"
	classHTTP = "HTTPClient"
)

// raspberryPi are the prefixes of the MACs that Raspberry Pi Ltd has for Ethernet.
var raspberryPi = [...][3]byte{
	{0xb8, 0x27, 0xeb}, {0xdc, 0xa6, 0x32}, {0xe4, 0x5f, 0x01}, {0xd8, 0x3a, 0xdd}, {0x28, 0xcd, 0xc1}, {0x2c, 0xcf, 0x67},
}

// identify reads who sent a packet. False is a packet of another network than
// Ethernet.
func identify(p *dhcpv4.DHCPv4, server netip.Addr) (Client, bool) {
	if p.HWType != 1 || len(p.ClientHWAddr) != 6 {
		return Client{}, false
	}
	c := Client{MAC: MAC(p.ClientHWAddr), Stage: Linux, Arch: arch(p), Server: server, Hostname: printable(p.HostName())}
	id := p.Options.Get(dhcpv4.OptionClientMachineIdentifier)
	pi := isPi(c.MAC, id)
	if len(id) == 17 && id[0] == 0 {
		h := hex.EncodeToString(id[1:])
		c.UUID = strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
		if pi {
			c.Serial = piSerial(id[1:])
		}
	}
	class := string(p.Options.Get(dhcpv4.OptionClassIdentifier))
	switch {
	case isIPXE(p):
		c.Stage = IPXE
	case strings.HasPrefix(class, classHTTP) || strings.HasPrefix(class, classPXE) && c.Arch.http():
		c.Stage = HTTP
	case strings.HasPrefix(class, classPXE) && pi && c.Arch == BIOS:
		c.Stage = RaspberryPi // a Pi with UEFI firmware says another architecture
	case strings.HasPrefix(class, classPXE):
		c.Stage = PXE
	}
	return c, true
}

// arch is option 93, or what the class says: "PXEClient:Arch:00007:UNDI:003016".
func arch(p *dhcpv4.DHCPv4) Arch {
	if b := p.Options.Get(dhcpv4.OptionClientSystemArchitectureType); len(b) >= 2 {
		return Arch(binary.BigEndian.Uint16(b))
	}
	words := strings.Split(string(p.Options.Get(dhcpv4.OptionClassIdentifier)), ":")
	if i := slices.Index(words, "Arch"); i >= 0 && i+1 < len(words) {
		if n, err := strconv.ParseUint(words[i+1], 10, 16); err == nil {
			return Arch(n)
		}
	}
	return NoArch
}

// isIPXE looks for iPXE's user class, option 77, as one string or as the list of
// RFC 3004, and for its own option 175, which it sends under another class too.
func isIPXE(p *dhcpv4.DHCPv4) bool {
	if p.Options.Has(dhcpv4.GenericOptionCode(175)) {
		return true
	}
	b := p.Options.Get(dhcpv4.OptionUserClassInformation)
	if string(b) == "iPXE" {
		return true
	}
	for len(b) > 0 {
		n := int(b[0])
		if n+1 > len(b) {
			return false
		}
		if string(b[1:n+1]) == "iPXE" {
			return true
		}
		b = b[n+1:]
	}
	return false
}

func isPi(m MAC, id []byte) bool {
	return slices.Contains(raspberryPi[:], [3]byte(m[:3])) || len(id) == 17 && strings.HasPrefix(string(id[1:]), "RPi")
}

// piSerial reads the serial number of a Pi's option 97. The EEPROM of a 4 and 5
// sends "RPi4" or "RPi5", the revision, the MAC's last bytes and the serial; older
// ones and the boot ROM of a 3 repeat the serial four times. All of them are
// little-endian.
func piSerial(id []byte) string {
	serial := id[12:16]
	if !strings.HasPrefix(string(id), "RPi") {
		for i := range id {
			if id[i] != serial[i%4] {
				return ""
			}
		}
	}
	n := binary.LittleEndian.Uint32(serial)
	if n == 0 || n == 0x44444444 {
		return ""
	}
	return fmt.Sprintf("%08x", n)
}

// printable makes a client's text fit for logs.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return -1
		}
		return r
	}, s[:min(len(s), 63)])
}
