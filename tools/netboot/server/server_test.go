package server

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"strings"
	"testing"

	"machined/tools/netboot/bootfiles"
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
	tell(dhcp.Event{Kind: dhcp.Elsewhere, Client: who, Detail: "two DHCP servers"})
	if b, _ = s.Registry.At(boardIP); !strings.Contains(b.Error, "two DHCP servers") {
		t.Errorf("the board is %+v; want the other server told", b)
	}
	tell(dhcp.Event{Kind: dhcp.Looped, Client: who, Detail: "it goes in circles"})
	if b, _ = s.Registry.At(boardIP); !strings.Contains(b.Error, "circles") {
		t.Errorf("the board is %+v; want the loop told", b)
	}
	m := &s.Metrics
	if m.Offers.Load() != 1 || m.Leases.Load() != 1 || m.Refusals.Load() != 1 || m.TFTPDone.Load() != 1 || m.TFTPFailed.Load() != 1 || m.TFTPBytes.Load() != uint64(c.Size()) {
		t.Errorf("the metrics are %+v", m)
	}
	for want, times := range map[string]int{"board seen": 1, "board has all that it boots": 1, "board fails": 2} {
		if strings.Count(log.String(), want) != times {
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

// TestPiLacks: the page says which file a Raspberry Pi stops without, and nothing of
// those that it only looks for.
func TestPiLacks(t *testing.T) {
	dir := directory(t)
	s, _ := newServer(t, dir, nil)
	who := dhcp.Client{MAC: boardMAC, Stage: dhcp.RaspberryPi, Arch: dhcp.BIOS, Server: serverIP}
	if _, ok := s.chooser.Offer(who); !ok {
		t.Fatal("the board is offered nothing")
	}
	s.Registry.Address(boardMAC.String(), boardIP)
	remove(t, dir, "rpi-3a-plus/start.elf")
	client := tftp.Client{Addr: netip.AddrPortFrom(boardIP, 1500), LocalIP: serverIP}
	tell := s.onTFTP(func(tftp.Event) {})
	ask := func(name string) string {
		t.Helper()
		c, err := s.openTFTP(context.Background(), client, name)
		e := tftp.Event{Kind: tftp.Started, Client: client, Name: name}
		if err != nil {
			e.Kind, e.Err = tftp.Refused, err
		} else if err = c.Close(); err != nil {
			t.Fatal(err)
		}
		tell(e)
		b, _ := s.Registry.At(boardIP)
		return b.Error
	}
	for _, name := range []string{"bootsig.bin", "b22faaeb/autoboot.txt", "b22faaeb/config.txt"} {
		if got := ask(name); got != "" {
			t.Errorf("%s: the board's error is %q; want none", name, got)
		}
	}
	if b, _ := s.Registry.At(boardIP); b.Serial != "b22faaeb" {
		t.Errorf("the board is %+v; want the serial number by which it asks", b)
	}
	if got := ask("b22faaeb/start.elf"); !strings.Contains(got, "b22faaeb/start.elf is not there") {
		t.Errorf("the board's error is %q; want the file that it stops without", got)
	}
	if _, ok := s.chooser.Offer(who); !ok {
		t.Fatal("the board is offered nothing")
	}
	if err := s.Registry.Decide(registry.Name(boardMAC.String()), registry.Ignore); err != nil {
		t.Fatal(err)
	}
	if got := ask("b22faaeb/start.elf"); got != "" {
		t.Errorf("the error of a board that is ignored is %q; want none", got)
	}
}

// TestProxyScript: iPXE in a ROM asks for its script first, and a proxy has given it no
// address to know it by.
func TestProxyScript(t *testing.T) {
	s, _ := newServer(t, directory(t), nil)
	s.Registry.Neighbour = func(netip.Addr) string { return boardMAC.String() }
	who := dhcp.Client{MAC: boardMAC, Stage: dhcp.IPXE, Arch: dhcp.BIOS, Server: serverIP}
	if _, ok := s.chooser.Offer(who); !ok {
		t.Fatal("the board is offered nothing")
	}
	c, err := s.open(bootfiles.Asks{Client: boardIP, Server: serverIP}, bootfiles.Script)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	text := make([]byte, c.Size())
	_, _ = c.ReadAt(text, 0)
	if !strings.Contains(string(text), "x86_64-uefi/kernel") {
		t.Errorf("the script is\n%s; want one that loads the kernel of a PC", text)
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
