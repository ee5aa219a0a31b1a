package hal

import (
	"net/netip"
	"testing"
)

func address(t *testing.T, s string) Address {
	t.Helper()
	var a Address
	a.Len = uint8(copy(a.Bytes[:], netip.MustParseAddr(s).AsSlice()))
	return a
}

// FuzzAddress compares with net/netip, which follows RFC 5952.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{"10.0.0.1", "::", "::1", "1::", "fe80::1:0:0:1", "2001:db8:0:1:1:1:1:1", "1:0:0:2:0:0:0:3", "0:0:0:0:1::"} {
		f.Add(netip.MustParseAddr(s).AsSlice(), uint8(24))
	}
	f.Fuzz(func(t *testing.T, b []byte, bits uint8) {
		ip, ok := netip.AddrFromSlice(b)
		// A mapped address has a notation of its own there; here it is never made.
		if !ok || ip.Is4In6() {
			return
		}
		a := address(t, ip.String())
		if got := a.String(); got != ip.String() {
			t.Errorf("String() = %q; want %q", got, ip)
		}
		bits %= uint8(ip.BitLen()) + 1
		want, _ := ip.Prefix(int(bits))
		p := Prefix{Address: a, Bits: bits}
		if got := p.Masked().String(); got != want.String() {
			t.Errorf("%v.Masked() = %q; want %q", p, got, want)
		}
		if !p.Contains(a) {
			t.Errorf("%v.Contains(%v) = false; want true", p, a)
		}
	})
}

func TestAbsentAddress(t *testing.T) {
	if got := (Address{}).String() + (Prefix{}).String(); got != "" {
		t.Errorf("an absent address and prefix print as %q; want nothing", got)
	}
	all := Prefix{Address: Address{Len: 4}}
	for _, c := range []struct {
		a    Address
		want bool
	}{{Address{}, false}, {address(t, "10.0.0.1"), true}, {address(t, "fe80::1"), false}} {
		if got := all.Contains(c.a); got != c.want {
			t.Errorf("0.0.0.0/0.Contains(%v) = %v; want %v", c.a, got, c.want)
		}
	}
}
