package config

import (
	"fmt"
	"net/netip"
	"strings"
)

func (d *decoder) network(v value) Network {
	o := d.object(v, "interfaces", "nameservers", "search")
	n := Network{
		Nameservers: scalars(d, o.get("nameservers"), parseNameserver),
		Search:      scalars(d, o.get("search"), parseSearch),
	}
	seen := names{}
	addresses := names{}
	for _, item := range d.list(o.get("interfaces")) {
		i := d.object(item, "name", "up", "mtu", "addresses", "routes", "dhcp4", "dhcp6", "wifi")
		name := d.need(i, "name")
		iface := Interface{
			Name:      scalar(d, name, "", parseInterfaceName),
			Up:        d.boolean(i.get("up"), true),
			Addresses: d.addresses(i.get("addresses"), addresses),
			Routes:    d.routes(i.get("routes")),
			DHCP4:     d.boolean(i.get("dhcp4"), false),
			DHCP6:     d.boolean(i.get("dhcp6"), false),
			Wifi:      d.wifi(i.get("wifi")),
		}
		iface.MTU = d.mtu(i.get("mtu"), iface)
		if iface.Name != "" {
			seen.add(d, name, "interface", iface.Name)
		}
		n.Interfaces = append(n.Interfaces, iface)
	}
	return n
}

// mtu accepts what IP can work with: RFC 791 asks for 68 bytes, RFC 8200 for
// 1280; the loopback has 65536.
func (d *decoder) mtu(v value, iface Interface) uint32 {
	lowest := int64(68)
	ipv6 := iface.DHCP6
	for _, a := range iface.Addresses {
		ipv6 = ipv6 || a.Addr().Is6()
	}
	if ipv6 {
		lowest = 1280
	}
	return uint32(d.integer(v, 0, lowest, 65536))
}

// addresses reads a list of ip/prefix. An address belongs on one interface of
// the node, except for link-local ones.
func (d *decoder) addresses(v value, node names) []netip.Prefix {
	var out []netip.Prefix
	here := names{}
	for _, item := range d.list(v) {
		p := scalar(d, item, netip.Prefix{}, parseAddress)
		if !p.IsValid() {
			continue
		}
		seen := node
		if p.Addr().IsLinkLocalUnicast() {
			seen = here
		}
		if seen.add(d, item, "address", p.Addr().String()) {
			out = append(out, p)
		}
	}
	return out
}

func (d *decoder) routes(v value) []Route {
	var out []Route
	for _, item := range d.list(v) {
		o := d.object(item, "to", "via", "metric")
		r := Route{
			Via:    scalar(d, d.need(o, "via"), netip.Addr{}, parseGateway),
			Metric: uint32(d.integer(o.get("metric"), 0, 0, 1<<32-1)),
		}
		to := o.get("to")
		r.To = scalar(d, to, netip.Prefix{}, parseDestination)
		switch {
		case !r.Via.IsValid():
		case to.absent() && r.Via.Is4():
			r.To = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		case to.absent():
			r.To = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		case r.To.IsValid() && r.To.Addr().Is4() != r.Via.Is4():
			via := o.get("via")
			via.node = target(via.node)
			d.errorf(via, "want a gateway of the destination's family, %v; got %v", r.To, r.Via)
		}
		out = append(out, r)
	}
	return out
}

func (d *decoder) wifi(v value) *Wifi {
	o := d.object(v, "ssid", "psk", "country")
	if !o.ok {
		return nil
	}
	return &Wifi{
		SSID:    scalar(d, d.need(o, "ssid"), "", parseSSID),
		PSK:     scalar(d, o.get("psk"), "", parsePSK),
		Country: scalar(d, o.get("country"), "", parseCountry),
	}
}

// parseInterfaceName follows the kernel's dev_valid_name.
func parseInterfaceName(s string) (string, error) {
	bad := strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '/' || r == ':' || r > '~' })
	if s == "" || len(s) > 15 || s == "." || s == ".." || bad {
		return "", fmt.Errorf("want an interface name of 1 to 15 characters such as eth0; got %s", quote(s))
	}
	return s, nil
}

func parseAddress(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	a := p.Addr()
	if err != nil || a.Is4In6() || a.IsUnspecified() || a.IsMulticast() || p.Bits() == 0 {
		return netip.Prefix{}, fmt.Errorf("want an address with its prefix length such as 192.168.1.10/24; got %s", quote(s))
	}
	return p, nil
}

func parseDestination(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("want a network such as 10.0.0.0/8, or no field for the default route; got %s", quote(s))
	}
	if p != p.Masked() {
		return netip.Prefix{}, fmt.Errorf("want a network without host bits, %v; got %s", p.Masked(), quote(s))
	}
	return p, nil
}

func parseGateway(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.Is4In6() || a.Zone() != "" || a.IsUnspecified() || a.IsMulticast() {
		return netip.Addr{}, fmt.Errorf("want the address of a gateway such as 192.168.1.1; got %s", quote(s))
	}
	return a, nil
}

// parseNameserver allows a zone: a router's link-local address is common.
func parseNameserver(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.IsUnspecified() || a.IsMulticast() || !isZone(a.Zone()) {
		return netip.Addr{}, fmt.Errorf("want the address of a name server such as 192.168.1.1; got %s", quote(s))
	}
	return a, nil
}

func parseSSID(s string) (string, error) {
	if s == "" || len(s) > 32 || strings.ContainsRune(s, 0) {
		return "", fmt.Errorf("want a network name of 1 to 32 bytes; got %s", quote(s))
	}
	return s, nil
}

// parsePSK does not repeat the secret in its message.
func parsePSK(s string) (string, error) {
	if len(s) == 64 && only(s, digits+"abcdefABCDEF") {
		return s, nil
	}
	if len(s) < 8 || len(s) > 63 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", fmt.Errorf("want a passphrase of 8 to 63 printable ASCII characters or 64 hex digits; got %d bytes", len(s))
	}
	return s, nil
}

func parseCountry(s string) (string, error) {
	if len(s) != 2 || !only(s, letters[26:]) {
		return "", fmt.Errorf("want a country of two capital letters (ISO 3166-1) such as DE; got %s", quote(s))
	}
	return s, nil
}
