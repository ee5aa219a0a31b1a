package server

import (
	"bufio"
	"net"
	"net/netip"
	"os"
	"strings"
)

// neighbour returns the MAC that the kernel has for an address on a link of this
// machine, "" for none: who has just sent us something is there.
func neighbour(addr netip.Addr) string {
	f, err := os.Open("/proc/net/arp")
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if mac := neighbourIn(lines.Text(), addr); mac != "" {
			return mac
		}
	}
	return ""
}

// neighbourIn reads a line of /proc/net/arp: address, type, flags, MAC.
func neighbourIn(line string, addr netip.Addr) string {
	words := strings.Fields(line)
	if len(words) < 4 || words[0] != addr.String() {
		return ""
	}
	mac, err := net.ParseMAC(words[3])
	if err != nil || len(mac) != 6 || mac.String() == "00:00:00:00:00:00" {
		return ""
	}
	return mac.String()
}
