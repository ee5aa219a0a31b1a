package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"

	"machined/hal"
	"machined/hal/linux"
)

// lease is what a DHCP server granted to a link.
type lease struct {
	link        string
	address     hal.Prefix
	gateway     hal.Address // Len 0 when the server named none
	mtu         uint32      // bytes; 0 when the server named none
	nameservers []netip.Addr
	search      []string
}

// dhcpRetryMax bounds the wait between two tries to find a server.
const dhcpRetryMax = 30 * time.Second

// request4 asks a DHCP server for a lease once, and returns its lifetime too.
type request4 func(ctx context.Context) (*lease, time.Duration, error)

// keepLease keeps a DHCPv4 lease (RFC 2131) until ctx ends, and hands each new
// lease to granted. A nil lease says that the last one expired. It asks again
// at half of the lease's time, as the RFC has it for T1.
func keepLease(ctx context.Context, request request4, granted func(*lease), failed func(error)) {
	retry := time.Second
	for ctx.Err() == nil {
		l, lifetime, err := request(ctx)
		if err != nil {
			if ctx.Err() == nil {
				failed(err)
			}
			sleep(ctx, retry)
			retry = min(2*retry, dhcpRetryMax)
			continue
		}
		retry = time.Second
		granted(l)
		expires := time.Now().Add(lifetime)
		sleep(ctx, lifetime/2)
		for ctx.Err() == nil {
			renewed, again, err := request(ctx)
			if err == nil {
				granted(renewed)
				lifetime, expires = again, time.Now().Add(again)
				sleep(ctx, lifetime/2)
				continue
			}
			left := time.Until(expires)
			if left <= 0 {
				granted(nil)
				break
			}
			sleep(ctx, min(left, max(min(left/2, dhcpRetryMax), time.Second)))
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// requestLease runs one exchange of discover, offer, request and acknowledge.
func requestLease(ctx context.Context, link, hostname string) (*lease, time.Duration, error) {
	client, err := nclient4.New(link, nclient4.WithTimeout(2*time.Second), nclient4.WithRetry(2))
	if err != nil {
		return nil, 0, fmt.Errorf("open a DHCP socket on %s: %w", link, err)
	}
	defer client.Close()
	granted, err := client.Request(ctx,
		dhcpv4.WithOption(dhcpv4.OptHostName(hostname)),
		dhcpv4.WithRequestedOptions(dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer,
			dhcpv4.OptionDomainName, dhcpv4.OptionDNSDomainSearchList, dhcpv4.OptionInterfaceMTU))
	if err != nil {
		return nil, 0, fmt.Errorf("get a DHCP lease on %s: %w", link, err)
	}
	l, err := readLease(link, granted.ACK)
	if err != nil {
		return nil, 0, fmt.Errorf("read the DHCP lease on %s: %w", link, err)
	}
	// RFC 2131 has no shortest lease; one of seconds would be a storm.
	return l, max(granted.ACK.IPAddressLeaseTime(time.Hour), 20*time.Second), nil
}

func readLease(link string, ack *dhcpv4.DHCPv4) (*lease, error) {
	ip, ok := netip.AddrFromSlice(ack.YourIPAddr.To4())
	ones, bits := net.IPMask(ack.SubnetMask()).Size()
	if !ok || bits != 32 || ones == 0 || !ip.IsGlobalUnicast() && !ip.IsLinkLocalUnicast() {
		return nil, fmt.Errorf("the server offered address %s with mask %s", ack.YourIPAddr, ack.SubnetMask())
	}
	l := &lease{link: link, address: linux.PrefixFrom(netip.PrefixFrom(ip, ones))}
	if routers := ack.Router(); len(routers) > 0 {
		if gw, ok := netip.AddrFromSlice(routers[0].To4()); ok {
			l.gateway = linux.AddressFrom(gw)
		}
	}
	if mtu, err := dhcpv4.GetUint16(dhcpv4.OptionInterfaceMTU, ack.Options); err == nil && mtu >= 576 {
		l.mtu = uint32(mtu)
	}
	for _, s := range ack.DNS() {
		if a, ok := netip.AddrFromSlice(s.To4()); ok {
			l.nameservers = append(l.nameservers, a)
		}
	}
	if list := ack.DomainSearch(); list != nil {
		l.search = list.Labels
	} else if name := ack.DomainName(); name != "" {
		l.search = []string{name}
	}
	return l, nil
}
