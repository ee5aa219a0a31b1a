package netboottest

import (
	"fmt"
	"testing"

	"machined/tools/netlab"
)

// The one network of a test, and the server's address in it.
const (
	lan      = netlab.Bridge("boards0")
	serverIP = "10.77.0.1"
)

// mac is that of a test's board n.
func mac(n int) string { return fmt.Sprintf("52:54:00:00:77:%02x", n) }

// router is a machine with dnsmasq, as a network has one that gives out addresses
// and knows nothing of boards: 10.77.0.50 to 60.
func router(t *testing.T) {
	t.Helper()
	lan.Plug(t, "02:00:00:00:77:fe").Dnsmasq(t, "10.77.0.254/24", "--dhcp-range=10.77.0.50,10.77.0.60,255.255.255.0,10m")
}
