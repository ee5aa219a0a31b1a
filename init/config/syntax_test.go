package config

import (
	"testing"
	"time"
)

func TestSysctlPath(t *testing.T) {
	for _, tt := range []struct{ key, want string }{
		{"net.ipv4.ip_forward", "net/ipv4/ip_forward"},
		{"net/ipv4/ip_forward", "net/ipv4/ip_forward"},
		{"net.ipv4.conf.eth0/100.rp_filter", "net/ipv4/conf/eth0.100/rp_filter"},
		{"net/ipv4/conf/eth0.100/rp_filter", "net/ipv4/conf/eth0.100/rp_filter"},
		{"net.bridge.bridge-nf-call-iptables", "net/bridge/bridge-nf-call-iptables"},
	} {
		if _, err := parseSysctlKey(tt.key); err != nil {
			t.Errorf("parseSysctlKey(%q) = %v; want no error", tt.key, err)
		}
		if got := (Sysctl{Key: tt.key}).Path(); got != tt.want {
			t.Errorf("Path(%q) = %q; want %q", tt.key, got, tt.want)
		}
	}
	for _, key := range []string{
		"", "swappiness", ".", "..", "/", "a.", ".a", "a..b", "a//b", "/a/b", "a/b/", "a/../b", "a/./b", "../a",
		"a.b/../c", "a./.b", "a.//.b", "a b.c", "a.b\x00", "a.b\n", "net/ipv4/conf/../../../../etc/passwd",
	} {
		if got, err := parseSysctlKey(key); err == nil {
			t.Errorf("parseSysctlKey(%q) = %q, path %q; want an error", key, got, Sysctl{Key: key}.Path())
		}
	}
}

func TestSizes(t *testing.T) {
	for _, tt := range []struct {
		text string
		want ByteSize
		back string
	}{
		{"0", 0, "0"}, {"1000", 1000, "1000"}, {"1024", 1 << 10, "1KiB"}, {"256MiB", 256 << 20, "256MiB"},
		{"2 GiB", 2 << 30, "2GiB"}, {"3TiB", 3 << 40, "3TiB"}, {"1536KiB", 1536 << 10, "1536KiB"},
	} {
		got, err := parseSize(tt.text)
		if err != nil || got != tt.want || got.String() != tt.back {
			t.Errorf("parseSize(%q) = %v (%d), %v; want %s (%d)", tt.text, got, got, err, tt.back, tt.want)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5GiB", "1MB", "1M", "0x10", "9000000TiB", "99999999999999999999"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("parseSize(%q) = %v; want an error", text, got)
		}
	}
}

func TestCPUMax(t *testing.T) {
	for _, tt := range []struct {
		text string
		want CPUMax
	}{
		{"50%", CPUMax{50 * time.Millisecond, 100 * time.Millisecond}},
		{"150%", CPUMax{150 * time.Millisecond, 100 * time.Millisecond}},
		{"20000 50000", CPUMax{20 * time.Millisecond, 50 * time.Millisecond}},
	} {
		if got, err := parseCPUMax(tt.text); err != nil || got != tt.want {
			t.Errorf("parseCPUMax(%q) = %v, %v; want %v", tt.text, got, err, tt.want)
		}
	}
	for _, text := range []string{"", "%", "-1%", "50", "max 100000", "999 100000", "1000 2000000", "1 2 3"} {
		if got, err := parseCPUMax(text); err == nil {
			t.Errorf("parseCPUMax(%q) = %v; want an error", text, got)
		}
	}
}

func TestHostPort(t *testing.T) {
	for _, text := range []string{"a:1", "a.example:65535", "10.0.0.1:80", "[::1]:80", "[fe80::1%eth0]:80"} {
		if err := parseHostPort(text); err != nil {
			t.Errorf("parseHostPort(%q) = %v; want no error", text, err)
		}
	}
	for _, text := range []string{"", ":", "a", "a:", ":1", "a:0", "a:65536", "::1:80", "[::1]", "[::1:80", "[a]:1", "a b:1", "[fe80::1%a b]:80", "a:+1"} {
		if err := parseHostPort(text); err == nil {
			t.Errorf("parseHostPort(%q) = nil; want an error", text)
		}
	}
}

func TestSuggest(t *testing.T) {
	known := []string{"hostname", "up", "mtu", "to", "via", "depends_on"}
	for _, tt := range []struct{ word, want string }{
		{"hostnme", `; did you mean "hostname"?`},
		{"HostName", `; did you mean "hostname"?`},
		{"dependsOn", `; did you mean "depends_on"?`},
		{"mut", `; did you mean "mtu"?`},
		{"ab", ""}, {"", ""}, {"address", ""},
	} {
		if got := suggest(tt.word, known); got != tt.want {
			t.Errorf("suggest(%q) = %q; want %q", tt.word, got, tt.want)
		}
	}
}
