package linux

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"machined/hal"
)

// AddressFrom converts from net/netip, which the TinyGo-safe packages do
// without. A mapped IPv4 address becomes a plain one.
func AddressFrom(a netip.Addr) hal.Address {
	var out hal.Address
	if a.IsValid() {
		out.Len = uint8(copy(out.Bytes[:], a.Unmap().AsSlice()))
	}
	return out
}

// PrefixFrom converts from net/netip; the host bits stay.
func PrefixFrom(p netip.Prefix) hal.Prefix {
	return hal.Prefix{Address: AddressFrom(p.Addr()), Bits: uint8(max(p.Bits(), 0))}
}

func addressOf(ip net.IP) hal.Address {
	a, ok := netip.AddrFromSlice(ip)
	if !ok {
		return hal.Address{}
	}
	return AddressFrom(a)
}

func family(a hal.Address) uint8 {
	if a.Len == 4 {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
