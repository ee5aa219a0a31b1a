package server

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"machined/tools/netboot/dhcp"
	"machined/tools/netlab"
	"machined/tools/testenv"
)

const (
	boards = netlab.Bridge("boards0") // as options has it
	office = netlab.Bridge("office0")
)

// asks is what somebody gets of a server: an answer by TFTP, and connections to the TCP
// ports.
type asks struct{ tftp, files, nodes bool }

func ask(t *testing.T, h netlab.Host, server string, wait time.Duration) (got asks) {
	t.Helper()
	connects := func(port string) bool {
		c, err := net.DialTimeout("tcp", net.JoinHostPort(server, port), wait)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}
	h.Inside(t, func() {
		got.files, got.nodes = connects("8080"), connects("8443")
		c, err := net.ListenUDP("udp4", &net.UDPAddr{})
		if err != nil {
			return
		}
		defer c.Close()
		at := netip.AddrPortFrom(netip.MustParseAddr(server), tftpPort)
		if _, err := c.WriteToUDPAddrPort([]byte("\x00\x01x86_64-uefi/uki.efi\x00octet\x00"), at); err != nil {
			return
		}
		_ = c.SetReadDeadline(time.Now().Add(wait))
		_, _, err = c.ReadFromUDPAddrPort(make([]byte, 2048))
		got.tftp = err == nil
	})
	return got
}

// TestOtherNetworks: who is on another network of this machine gets nothing, whatever
// address of the machine it asks. The boards do.
func TestOtherNetworks(t *testing.T) {
	testenv.NeedRoot(t, "ip", "nsenter")
	boards.Add(t, "192.0.2.1/24")
	office.Add(t, "198.51.100.1/24")
	board, stranger := boards.Plug(t, "52:54:00:00:00:01"), office.Plug(t, "02:00:00:00:00:99")
	board.Run(t, "ip", "addr", "add", "192.0.2.9/24", "dev", "eth0")
	stranger.Run(t, "ip", "addr", "add", "198.51.100.9/24", "dev", "eth0")
	stranger.Run(t, "ip", "route", "add", "default", "via", "198.51.100.1")
	run(t, "127.0.0.1:8088")
	if got := ask(t, board, "192.0.2.1", 20*time.Second); got != (asks{true, true, true}) {
		t.Errorf("a board gets %+v; want all of it", got)
	}
	for _, server := range []string{"198.51.100.1", "192.0.2.1"} {
		if got := ask(t, stranger, server, 2*time.Second); got != (asks{}) {
			t.Errorf("a stranger gets %+v at %s; want nothing", got, server)
		}
	}
	c, err := net.Dial("tcp", "127.0.0.1:8088")
	if err != nil {
		t.Fatalf("the page, which is at an address of its own: %v", err)
	}
	_ = c.Close()
}

// run runs a server until the test ends.
func run(t *testing.T, page string) {
	t.Helper()
	s, log := newServer(t, directory(t), func(o *Options) { o.Lab = page })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(log.String(), "msg=serving"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the server does not start; it says\n%s", log)
		}
	}
}

// TestTaken: each port that another program has is named at once, with what to do.
func TestTaken(t *testing.T) {
	testenv.NeedRoot(t, "ip")
	boards.Add(t, "192.0.2.1/24")
	run(t, "127.0.0.1:8088")
	s, _ := newServer(t, directory(t), func(o *Options) { o.Lab = "127.0.0.1:8088" })
	err := s.Run(context.Background())
	for _, want := range []string{
		"listen for files", "--http-port", "listen for nodes", "--node-port", "listen for the page", "--lab",
		"listen for TFTP on boards0", "another TFTP server runs on this machine", "open port 67 on boards0", "another DHCP or PXE server runs",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run beside another server = %v; want %q in it", err, want)
		}
	}
	s, _ = newServer(t, directory(t), func(o *Options) {
		o.DHCP = dhcp.Config{Interface: "boards0", ServerIP: netip.MustParseAddr("192.0.2.77"), Mode: dhcp.Proxy}
	})
	if err := s.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "the address is not this machine's") {
		t.Errorf("Run with an address that is another machine's = %v", err)
	}
}
