package network

import (
	"reflect"
	"testing"
	"time"

	"machined/hal"
)

func fullLease() *lease {
	return &lease{
		mac: mac(0xfe), index: 7, grantedAt: 90 * time.Second,
		granted: hal.DHCPMessage{
			Address: p("192.168.7.100/24"), Server: ip("192.168.7.1"), Lease: 3600, Renew: 100, Rebind: 200, MTU: 1400,
			Hostname: "kitchen.lan", Nameservers: []hal.Address{ip("192.168.7.1"), ip("9.9.9.9")},
			TimeServers: []hal.Address{ip("192.168.7.2")}, Search: []string{"lan", "example.org"},
			Routes: []hal.DHCPRoute{{Destination: p("0.0.0.0/0"), Gateway: ip("192.168.7.1")}, {Destination: p("10.0.0.0/8")}},
		},
	}
}

func TestLeaseFileRoundTrip(t *testing.T) {
	want := fullLease()
	var got lease
	if !got.decode(want.encode()) {
		t.Fatalf("decode refuses what encode wrote:\n%s", want.encode())
	}
	want.times(want.grantedAt)
	if !reflect.DeepEqual(&got, want) {
		t.Errorf("after a round trip the lease is\n%+v; want\n%+v", got, *want)
	}
}

func TestLeaseFileRefused(t *testing.T) {
	for _, text := range []string{
		"", "\n", leaseHeader, leaseHeader + "\n", "lease 2\naddress 10.0.0.1/24\n",
		leaseHeader + "\naddress 10.0.0.1/24", // cut off
		leaseHeader + "\naddress 10.0.0.1/33\n", leaseHeader + "\naddress 10.0.0/24\n", leaseHeader + "\naddress 10.0.0.256/24\n",
		leaseHeader + "\naddress 0.0.0.0/24\n", leaseHeader + "\naddress 224.0.0.1/24\n", leaseHeader + "\naddress 10.0.0.1/0\n",
		leaseHeader + "\naddress 10.0.0.1/24\nroute 10.0.0.0 10.0.0.1\n",
		leaseHeader + "\naddress 10.0.0.1/24\ngranted -1\n", leaseHeader + "\naddress 10.0.0.1/24\nlease 4294967296\n",
		leaseHeader + "\naddress 10.0.0.1/24\nmac 0123\n", leaseHeader + "\naddress 10.0.0.1/24\nmac 01234567890x\n",
	} {
		var l lease
		if l.decode(text) {
			t.Errorf("decode(%q) takes it as %+v; want it refused", text, l.granted)
		}
	}
}

// FuzzLeaseFile checks that whatever is read writes itself the same way, and
// that its times make sense.
func FuzzLeaseFile(f *testing.F) {
	f.Add(fullLease().encode())
	f.Add(leaseHeader + "\naddress 10.0.0.1/24\n")
	f.Add(leaseHeader + "\nmac 020000000001\naddress 10.0.0.1/24\nlease 4294967295\ngranted 2305843009213693951\n")
	f.Fuzz(func(t *testing.T, text string) {
		var l lease
		if !l.decode(text) {
			return
		}
		if l.renewAt < l.grantedAt || l.rebindAt < l.renewAt || l.expireAt <= l.rebindAt {
			t.Errorf("granted at %d, T1 %d, T2 %d, end %d; want them in order", l.grantedAt, l.renewAt, l.rebindAt, l.expireAt)
		}
		once := l.encode()
		var again lease
		if !again.decode(once) || again.encode() != once {
			t.Errorf("%q is written as %q, and read again as %q", text, once, again.encode())
		}
	})
}
