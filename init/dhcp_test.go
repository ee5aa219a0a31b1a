package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/rfc1035label"

	"machined/hal"
	"machined/hal/linux"
)

func ack(t testing.TB, options ...dhcpv4.Option) *dhcpv4.DHCPv4 {
	t.Helper()
	p, err := dhcpv4.New(dhcpv4.WithMessageType(dhcpv4.MessageTypeAck), dhcpv4.WithYourIP(net.IPv4(10, 0, 0, 5)))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range append([]dhcpv4.Option{dhcpv4.OptSubnetMask(net.CIDRMask(24, 32))}, options...) {
		p.UpdateOption(o)
	}
	return p
}

func TestReadLease(t *testing.T) {
	prefix := func(s string) hal.Prefix { return linux.PrefixFrom(netip.MustParsePrefix(s)) }
	from := func(ip string, p *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
		p.YourIPAddr = net.ParseIP(ip)
		return p
	}
	mask := func(bytes ...byte) dhcpv4.Option {
		return dhcpv4.OptGeneric(dhcpv4.OptionSubnetMask, bytes)
	}
	for _, c := range []struct {
		name string
		ack  *dhcpv4.DHCPv4
		want *lease // nil: an error
	}{
		{"address alone", ack(t), &lease{link: "eth0", address: prefix("10.0.0.5/24")}},
		{"everything", ack(t,
			dhcpv4.OptRouter(net.IPv4(10, 0, 0, 1), net.IPv4(10, 0, 0, 2)), dhcpv4.OptDNS(net.IPv4(9, 9, 9, 9), net.IPv4(1, 1, 1, 1)),
			dhcpv4.OptGeneric(dhcpv4.OptionInterfaceMTU, []byte{0x05, 0x78}), dhcpv4.OptDomainName("lan")),
			&lease{
				link: "eth0", address: prefix("10.0.0.5/24"), gateway: linux.AddressFrom(netip.MustParseAddr("10.0.0.1")), mtu: 1400,
				nameservers: []netip.Addr{netip.MustParseAddr("9.9.9.9"), netip.MustParseAddr("1.1.1.1")}, search: []string{"lan"},
			}},
		{"a search list beats the domain", ack(t, dhcpv4.OptDomainName("lan"),
			dhcpv4.OptDomainSearch(&rfc1035label.Labels{Labels: []string{"a.lan", "b.lan"}})),
			&lease{link: "eth0", address: prefix("10.0.0.5/24"), search: []string{"a.lan", "b.lan"}}},
		{"an MTU below that of RFC 791", ack(t, dhcpv4.OptGeneric(dhcpv4.OptionInterfaceMTU, []byte{0, 68})),
			&lease{link: "eth0", address: prefix("10.0.0.5/24")}},
		{"an address of the link", from("169.254.1.2", ack(t, mask(255, 255, 0, 0))), &lease{link: "eth0", address: prefix("169.254.1.2/16")}},
		{"a network of one", ack(t, mask(255, 255, 255, 255)), &lease{link: "eth0", address: prefix("10.0.0.5/32")}},
		{"no address", from("0.0.0.0", ack(t)), nil},
		{"a group's address", from("224.0.0.1", ack(t)), nil},
		{"the loopback's address", from("127.0.0.1", ack(t)), nil},
		{"everybody's address", from("255.255.255.255", ack(t)), nil},
		{"a mask of nothing", ack(t, mask(0, 0, 0, 0)), nil},
		{"a mask with holes", ack(t, mask(255, 0, 255, 0)), nil},
		{"a short mask", ack(t, mask(255, 255)), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := readLease("eth0", c.ack)
			if !reflect.DeepEqual(got, c.want) || (err == nil) != (c.want != nil) {
				t.Errorf("readLease() = %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

// FuzzReadLease reads what any machine of the network may send.
func FuzzReadLease(f *testing.F) {
	f.Add(ack(f).ToBytes())
	f.Add(ack(f, dhcpv4.OptRouter(net.IPv4(10, 0, 0, 1)), dhcpv4.OptDNS(net.IPv4(9, 9, 9, 9)), dhcpv4.OptDomainName("a\nnameserver 6.6.6.6"),
		dhcpv4.OptGeneric(dhcpv4.OptionInterfaceMTU, []byte{5, 220})).ToBytes())
	f.Add(ack(f, dhcpv4.OptDomainSearch(&rfc1035label.Labels{Labels: []string{"a.lan", "b c"}})).ToBytes())
	f.Fuzz(func(t *testing.T, packet []byte) {
		p, err := dhcpv4.FromBytes(packet)
		if err != nil {
			return
		}
		l, err := readLease("eth0", p)
		if err != nil {
			if l != nil {
				t.Errorf("readLease() = %+v, %v; want either", l, err)
			}
			return
		}
		if l.address.Bits < 1 || l.address.Bits > 32 || l.address.Address.Len != 4 || l.gateway.Len != 0 && l.gateway.Len != 4 || l.mtu != 0 && l.mtu < 576 {
			t.Errorf("readLease() = %+v; want an IPv4 address with a mask", l)
		}
		checkResolvConf(t, formatResolvConf(l.nameservers, l.search))
	})
}

// checkResolvConf checks that nothing but the two keywords begins a line.
func checkResolvConf(t *testing.T, text []byte) {
	t.Helper()
	searches := 0
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		switch {
		case !strings.HasSuffix(line, "\n") || len(f) < 2:
		case f[0] == "nameserver" && len(f) == 2:
			if _, err := netip.ParseAddr(f[1]); err == nil {
				continue
			}
		case f[0] == "search":
			if searches++; searches == 1 {
				continue
			}
		}
		t.Errorf("resolv.conf has the line %q", line)
	}
}

func TestFormatResolvConf(t *testing.T) {
	servers := []netip.Addr{netip.MustParseAddr("9.9.9.9"), netip.MustParseAddr("2001:db8::1")}
	for _, c := range []struct {
		servers []netip.Addr
		search  []string
		want    string
	}{
		{nil, nil, ""},
		{servers, nil, "nameserver 9.9.9.9\nnameserver 2001:db8::1\n"},
		{nil, []string{"lan", "example.org"}, "search lan example.org\n"},
		{servers[:1], []string{"lan"}, "nameserver 9.9.9.9\nsearch lan\n"},
		{nil, []string{"lan\nnameserver 6.6.6.6", "", "a b", "x"}, "search x\n"},
		{nil, []string{"\x00", "\u0085"}, ""},
	} {
		if got := string(formatResolvConf(c.servers, c.search)); got != c.want {
			t.Errorf("formatResolvConf(%v, %q) = %q; want %q", c.servers, c.search, got, c.want)
		}
	}
}

// TestKeepLease follows a lease of an hour through renewals, a server that is
// gone, the lease's end and a new one.
func TestKeepLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var events []string
		note := func(what string) { events = append(events, time.Since(start).String()+" "+what) }
		gone := errors.New("no server")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		request := func(context.Context) (*lease, time.Duration, error) {
			since := time.Since(start)
			if since < 3*time.Second || since >= time.Hour && since < 2*time.Hour+10*time.Second {
				return nil, 0, gone
			}
			return &lease{}, time.Hour, nil
		}
		go keepLease(ctx, request, func(l *lease) {
			if l == nil {
				note("expired")
				return
			}
			note("granted")
		}, func(err error) { note(err.Error()) })
		time.Sleep(2*time.Hour + 45*time.Minute)
		cancel()
		synctest.Wait()
		// At 3 s the third try; at half of each hour a renewal. From 1 h on there
		// is no server, the lease of 30 min 3 s ends an hour after, and the tries
		// begin again with short waits.
		want := []string{
			"0s no server", "1s no server", "3s granted", "30m3s granted", "1h30m3s expired",
		}
		if len(events) < len(want) || !slices.Equal(events[:len(want)], want) {
			t.Fatalf("events: %q; want them to begin with %q", events, want)
		}
		rest := events[len(want):]
		if last := rest[len(rest)-1]; rest[0] != "1h30m3s no server" || rest[1] != "1h30m4s no server" || !strings.HasSuffix(last, "granted") {
			t.Errorf("after the end: %q; want tries at once, and a lease in the end", rest)
		}
	})
}

// TestKeepLeaseEnds checks that nothing is said once the link is gone.
func TestKeepLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			keepLease(ctx, func(ctx context.Context) (*lease, time.Duration, error) {
				<-ctx.Done() // a server that does not answer
				return nil, 0, ctx.Err()
			}, func(*lease) { t.Error("granted") }, func(err error) { t.Errorf("failed: %v", err) })
		}()
		time.Sleep(time.Minute)
		cancel()
		<-done
	})
}
