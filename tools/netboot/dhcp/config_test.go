package dhcp

import (
	"errors"
	"io/fs"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestFaults: all that is wrong with the settings is said at once.
func TestFaults(t *testing.T) {
	at := netip.MustParseAddr
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   []string
	}{
		{"nothing", func(c *Config) { *c = Config{} }, []string{"no interface is named", "the server's address invalid IP is no IPv4", `the mode "" is none of full and proxy`}},
		{"no pool", func(c *Config) { c.PoolFirst, c.PoolLast = netip.Addr{}, netip.Addr{} }, []string{"the pool invalid IP to invalid IP is not in 10.0.0.0/24"}},
		{"no subnet", func(c *Config) { c.Subnet = netip.Prefix{} }, []string{"the subnet invalid Prefix is none"}},
		{"pool backwards", func(c *Config) { c.PoolFirst, c.PoolLast = c.PoolLast, c.PoolFirst }, []string{"the pool ends at 10.0.0.100, before it begins at 10.0.0.102"}},
		{"pool to the broadcast", func(c *Config) { c.PoolLast = at("10.0.0.255") }, []string{"is not in 10.0.0.0/24 without its first and last address"}},
		{"a huge pool", func(c *Config) {
			c.Subnet, c.PoolFirst, c.PoolLast = netip.MustParsePrefix("10.0.0.0/8"), at("10.1.0.0"), at("10.2.0.0")
		}, []string{"more than 65536 addresses"}},
		{"server and router in the pool", func(c *Config) { c.ServerIP, c.Router = at("10.0.0.100"), at("10.0.0.101") },
			[]string{"the server's address 10.0.0.100 is in the pool", "the router's address 10.0.0.101 is in the pool"}},
		{"server elsewhere", func(c *Config) { c.ServerIP, c.Router = at("10.9.0.1"), at("10.0.0.0") }, []string{"the server's address 10.9.0.1 is not usable in 10.0.0.0/24", "the router's address 10.0.0.0 is not usable"}},
		{"a short lease, an odd DNS, a negative limit", func(c *Config) { c.LeaseTime, c.DNS, c.LoopLimit = time.Second, []netip.Addr{at("::1")}, -1 },
			[]string{"the lease time 1s is below a minute", "the name server ::1", "the loop limit -1"}},
		{"statics", func(c *Config) {
			c.Statics = []Static{{mac(1), at("10.0.0.7"), ""}, {mac(1), at("10.0.0.8"), ""}, {mac(2), at("10.0.0.8"), ""}, {mac(3), at("10.9.0.1"), ""}, {mac(4), serverIP, ""}}
		}, []string{"02:00:00:00:01:01 has two static leases, 10.0.0.7 and 10.0.0.8", "10.0.0.8 is of two boards, 02:00:00:00:01:01 and 02:00:00:00:01:02",
			"10.9.0.1 of 02:00:00:00:01:03 is not usable", "10.0.0.1 of 02:00:00:00:01:04 is the server's or the router's"}},
		{"a proxy with a pool", func(c *Config) { c.Mode = Proxy }, []string{"a proxy gives out no addresses"}},
		{"missing files", func(c *Config) {
			c.Boot = &table{targets: map[Stage]Target{PXE: {File: "ipxe.efi"}, HTTP: {URL: "http://10.0.0.1/node.efi"}}}
			c.Exists = func(Target) error { return fs.ErrNotExist }
		}, []string{"boards are offered ipxe.efi, which cannot be served: file does not exist", "boards are offered http://10.0.0.1/node.efi"}},
	} {
		cfg := Config{Interface: "eth0", ServerIP: serverIP}
		inFull(&cfg)
		c.change(&cfg)
		_, err := New(cfg)
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error is\n%v; it lacks %q", c.name, err, want)
			}
		}
		if n := strings.Count(err.Error(), "\n") + 1; n != len(c.want) {
			t.Errorf("%s: the error has %d lines; want %d:\n%v", c.name, n, len(c.want), err)
		}
		if c.name == "missing files" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v does not wrap its cause", err)
		}
	}
	good := Config{Interface: "eth0", ServerIP: serverIP, Boot: newTable(), Exists: func(Target) error { return nil }}
	inFull(&good)
	if _, err := New(good); err != nil {
		t.Errorf("good settings: %v", err)
	}
}
