package linux

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"machined/hal"
	"machined/hal/conformance"
	"machined/tools/testenv"
)

func TestHost(t *testing.T) {
	testenv.NeedRoot(t)
	conformance.Host(t, func(*testing.T) conformance.HostRig {
		// Settings of the network namespace, which is the tests' own.
		return conformance.HostRig{
			Host: Host{ProcSys: "/proc/sys"}, Key: "net.ipv4.conf.lo.rp_filter", Good: "1",
			Bad:   []string{"nonsense", "99999999999999999999"},
			Named: "net.ipv4.tcp_congestion_control", Stranger: "nonsense", Directory: "net.ipv4",
		}
	})
}

// TestSysctlOfDottedLink covers the one place where dots are part of a name.
func TestSysctlOfDottedLink(t *testing.T) {
	h := Host{ProcSys: "/proc/sys"}
	for _, c := range []struct{ key, want string }{
		{"net.ipv4.ip_forward", "/proc/sys/net/ipv4/ip_forward"},
		{"net/ipv4/conf/eth0.1/forwarding", "/proc/sys/net/ipv4/conf/eth0.1/forwarding"},
		{"kernel.hostname", "/proc/sys/kernel/hostname"},
	} {
		if got, err := h.sysctlPath(c.key); got != c.want || err != nil {
			t.Errorf("sysctlPath(%q) = %q, %v; want %q", c.key, got, err, c.want)
		}
	}
	for _, key := range []string{"", "/etc/passwd", "../../etc/passwd", "a/../../b"} {
		if got, err := h.sysctlPath(key); err != hal.ErrNotFound {
			t.Errorf("sysctlPath(%q) = %q, %v; want %v", key, got, err, hal.ErrNotFound)
		}
	}
}

func TestClock(t *testing.T) {
	conformance.Clock(t, Clock{}, func() { time.Sleep(20 * time.Millisecond) })
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		t.Fatal(err)
	}
	if got := (Clock{}).SinceBoot() / 1e9; got < info.Uptime-1 || got > info.Uptime+1 {
		t.Errorf("SinceBoot() = %d s; want the kernel's uptime of %d s", got, info.Uptime)
	}
}
