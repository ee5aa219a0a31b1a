package server

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"machined/tools/netboot/dhcp"
	"machined/tools/netboot/registry"
	"machined/tools/netboot/tftp"
	"machined/tools/netboot/web"
)

// TestBoard follows a board from DHCP to its kernel by what the servers tell.
func TestBoard(t *testing.T) {
	s, log := newServer(t, directory(t), func(o *Options) { o.DHCP.LeaseFile = "" })
	who := dhcp.Client{MAC: boardMAC, Stage: dhcp.PXE, Arch: dhcp.X64, Server: serverIP}
	if _, ok := s.chooser.Offer(who); !ok {
		t.Fatal("the board is offered nothing")
	}
	tell := s.onDHCP(func(dhcp.Event) {})
	tell(dhcp.Event{Kind: dhcp.Offered, Client: who, Address: boardIP})
	tell(dhcp.Event{Kind: dhcp.Leased, Client: who, Address: boardIP})
	tell(dhcp.Event{Kind: dhcp.Damaged})
	client := tftp.Client{Addr: netip.AddrPortFrom(boardIP, 1500), LocalIP: serverIP}
	c, err := s.openTFTP(context.Background(), client, `\x86_64-uefi\uki.efi`)
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, c.Size())
	_, _ = c.ReadAt(text, 0)
	_ = c.Close()
	if !strings.Contains(string(text), "machined.netboot=https://192.0.2.1:8443 machined.token=") {
		t.Errorf("the UKI is %q; want the server's arguments in it", text)
	}
	file := s.onTFTP(func(tftp.Event) {})
	event := tftp.Event{Kind: tftp.Started, Client: client, Name: `\x86_64-uefi\uki.efi`, Total: c.Size()}
	file(event)
	event.Kind, event.Bytes = tftp.Failed, 100
	event.Err = errors.New("the client does not answer")
	file(event)
	if b, _ := s.Registry.At(boardIP); !strings.Contains(b.Error, "does not answer") || b.Stage != registry.Loading {
		t.Errorf("the board is %+v; want its failure", b)
	}
	event.Kind, event.Bytes, event.Err = tftp.Done, c.Size(), nil
	file(event)
	b, ok := s.Registry.At(boardIP)
	if !ok || b.Stage != registry.Kernel || b.Percent != 100 || b.Bytes != b.Total || b.ID != "52-54-00-00-00-01" {
		t.Errorf("the board is %+v, %v; want all of it loaded", b, ok)
	}
	tell(dhcp.Event{Kind: dhcp.Looped, Client: who, Detail: "it goes in circles"})
	if b, _ = s.Registry.At(boardIP); !strings.Contains(b.Error, "circles") {
		t.Errorf("the board is %+v; want the loop told", b)
	}
	m := &s.Metrics
	if m.Offers.Load() != 1 || m.Leases.Load() != 1 || m.Refusals.Load() != 1 || m.TFTPDone.Load() != 1 || m.TFTPFailed.Load() != 1 || m.TFTPBytes.Load() != uint64(c.Size()) {
		t.Errorf("the metrics are %+v", m)
	}
	for _, want := range []string{"board seen", "board has all that it boots", "board fails"} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("the log is\n%s; want one line %q", log, want)
		}
	}
}

// TestStrangers: who asks for what is not there is no board, and who is ignored
// gets nothing, by whatever way.
func TestStrangers(t *testing.T) {
	s, _ := newServer(t, directory(t), func(o *Options) { o.Unknown = registry.Ignore })
	client := tftp.Client{Addr: netip.AddrPortFrom(boardIP, 1500)}
	if _, err := s.openTFTP(context.Background(), client, "x86_64-uefi/uki.efi"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening for a board that is ignored: %v; want fs.ErrNotExist", err)
	}
	s.onHTTP(web.Transfer{Client: boardIP, File: "favicon.ico", Err: fs.ErrNotExist})
	if b, _, _ := s.Registry.Boards(0); len(b) != 0 {
		t.Errorf("the boards are %+v; want none", b)
	}
	if s.Metrics.HTTPFailed.Load() != 1 {
		t.Error("the failure is not counted")
	}
}

// TestHTTP: only a whole file ends the loading.
func TestHTTP(t *testing.T) {
	s, _ := newServer(t, directory(t), nil)
	s.onHTTP(web.Transfer{Client: boardIP, File: "x86_64-uefi/initramfs.img", Bytes: 3, Total: 9, Done: true})
	if b, _ := s.Registry.At(boardIP); b.Stage != registry.Loading {
		t.Errorf("the board is %+v after a range of the file; want it loading", b)
	}
	s.onHTTP(web.Transfer{Client: boardIP, File: "x86_64-uefi/initramfs.img", Bytes: 9, Total: 9, Done: true})
	if b, _ := s.Registry.At(boardIP); b.Stage != registry.Kernel {
		t.Errorf("the board is %+v after all of the file; want a kernel", b)
	}
}

// TestLimit has a connection more wait until another is closed.
func TestLimit(t *testing.T) {
	l, err := listenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limited := limit(l, 1)
	defer limited.Close()
	for range 2 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first, err := limited.Accept()
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error)
	go func() {
		c, err := limited.Accept()
		if err == nil {
			err = c.Close()
		}
		second <- err
	}()
	select {
	case err := <-second:
		t.Fatalf("a second connection is taken beside the first: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	_, _ = first.Close(), first.Close() // the second close gives no place
	if err := <-second; err != nil {
		t.Error(err)
	}
	if err := limited.Close(); err != nil {
		t.Error(err)
	}
	if _, err := limited.Accept(); err == nil {
		t.Error("Accept() after Close() has a connection")
	}
}

func TestNeighbour(t *testing.T) {
	for line, want := range map[string]string{
		"192.0.2.9 0x1 0x2 52:54:00:00:00:01 * eth0": "52:54:00:00:00:01", "192.0.2.9 0x1 0x0 00:00:00:00:00:00 * eth0": "",
		"192.0.2.99 0x1 0x2 52:54:00:00:00:01 * eth0": "", "IP address HW type Flags HW address Mask Device": "", "192.0.2.9": "", "": "",
		"192.0.2.9 0x1 0x2 infinity * eth0": "",
	} {
		if got := neighbourIn(line, boardIP); got != want {
			t.Errorf("neighbourIn(%q) = %q; want %q", line, got, want)
		}
	}
}
