package roottest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"machined/hal/conformance"
	"machined/hal/linux"
	"machined/reconcile/network"
	"machined/tools/netlab"
	"machined/tools/testenv"
)

// chrony starts a time server of the peer. Without the time it says so.
func (p *peer) chrony(port string, ready bool) {
	p.t.Helper()
	dir := p.t.TempDir()
	config := "allow all\ncmdport 0\nport " + port + "\npidfile " + dir + "/pid\nbindcmdaddress /\n"
	if ready {
		config += "local stratum 3\n"
	}
	path := filepath.Join(dir, "chrony.conf")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.start("chronyd", "-x", "-d", "-u", "root", "-f", path) // -x: it leaves the clock alone
	eventually(p.t, "chronyd serves on "+port, func() bool { return strings.Contains(p.run("ss", "-Hlun"), ":"+port+" ") })
}

func TestNTPConformance(t *testing.T) {
	testenv.NeedRoot(t, "chronyd", "ip", "nsenter", "ss")
	p := newPeer(t, "10.77.0.1/24")
	p.plug("eth7", nodeMAC)
	netlab.Run(t, "ip", "addr", "add", "10.77.0.5/24", "dev", "eth7")
	netlab.Run(t, "ip", "link", "set", "eth7", "up")
	p.chrony("123", true)
	p.chrony("1123", false)
	ntp := linux.NTP{}
	eventually(t, "an answer of chronyd with the time", func() bool {
		s, err := ntp.Query("10.77.0.1")
		return err == nil && s.Stratum == 3
	})
	conformance.NTP(t, conformance.NTPRig{NTP: ntp, Good: "10.77.0.1", Silent: "10.77.0.99", Unready: "10.77.0.1:1123", Clock: linux.Clock{}})
	s, err := ntp.Query("10.77.0.1:123")
	t.Logf("a sample: %+v, %v", s, err)
	begun := time.Now()
	if _, err := ntp.Query("nobody.invalid"); err == nil {
		t.Error("Query of a name that does not exist succeeds")
	}
	t.Logf("a name that does not exist fails after %v", time.Since(begun).Round(time.Millisecond))
}

// TestTimeByDHCP: the server that DHCP names is asked as soon as there is a lease.
func TestTimeByDHCP(t *testing.T) {
	testenv.NeedRoot(t, "dnsmasq", "chronyd", "ip", "nsenter", "ss")
	p := newPeer(t, "10.77.0.1/24")
	p.chrony("123", true)
	p.dnsmasq("--dhcp-range=10.77.0.100,10.77.0.150,255.255.255.0,2m", "--dhcp-option=option:ntp-server,10.77.0.1")
	p.plug("eth7", nodeMAC)
	n := startNode(t, newRoot(t), network.Settings{})
	eventually(t, "time of the server that DHCP names", func() bool { return n.time().Synced && n.time().Server == "10.77.0.1" })
	n.clock.mu.Lock()
	defer n.clock.mu.Unlock()
	if len(n.clock.sets)+len(n.clock.slews) == 0 {
		t.Error("the clock was neither set nor slewed")
	}
}
