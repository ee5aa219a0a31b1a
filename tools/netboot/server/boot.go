package server

import (
	"fmt"
	"net/netip"
	"path"

	"machined/images/netboot"
	"machined/tools/netboot/bootfiles"
	"machined/tools/netboot/dhcp"
	"machined/tools/netboot/registry"
	"machined/tools/netboot/tftp"
)

// The boards that machines of an architecture are.
const (
	x86Board   = "x86_64-uefi"
	arm64Board = "arm64-uefi"
)

// iPXE's own programs, for firmware that cannot start a unified kernel image.
const (
	ipxeBIOS = "undionly.kpxe"
	ipxeIA32 = "ipxe-i386.efi"
)

// chooser decides what boards load: dhcp.Boot.
type chooser struct {
	files    *bootfiles.Files
	registry *registry.Registry
	httpPort uint16
	server   netip.Addr
}

// Offer implements dhcp.Boot.
func (c *chooser) Offer(who dhcp.Client) (dhcp.Target, bool) {
	name, target := c.choose(who)
	_, wanted := c.registry.Ask(registry.Facts{
		MAC: who.MAC.String(), UUID: who.UUID, Serial: who.Serial, Name: name, Client: string(who.Stage) + ", " + who.Arch.String(),
	})
	if target == nil && wanted {
		c.registry.Fail(registry.Name(who.MAC.String()), fmt.Sprintf("there is nothing for it to load: it asks by %s as %s", who.Stage, who.Arch))
	}
	if target == nil || !wanted {
		return dhcp.Target{}, false
	}
	return *target, true
}

// choose returns the board that a client is, and what it loads; nil for nothing.
func (c *chooser) choose(who dhcp.Client) (name string, t *dhcp.Target) {
	name = c.board(who)
	b, ok := c.files.Index().Boards[name]
	if !ok {
		return name, nil
	}
	base := c.base(who.Server)
	switch {
	case who.Stage == dhcp.RaspberryPi:
		return name, &dhcp.Target{}
	case who.Stage == dhcp.IPXE:
		return name, &dhcp.Target{File: bootfiles.Script, URL: base + bootfiles.Script}
	case who.Arch == dhcp.BIOS:
		return name, c.program(ipxeBIOS, base)
	case who.Arch == dhcp.IA32 || who.Arch == dhcp.HTTPIA32:
		return name, c.program(ipxeIA32, base)
	case b.UKI == nil:
		return name, nil
	}
	return name, &dhcp.Target{File: b.UKI.Path, URL: base + b.UKI.Path}
}

func (c *chooser) base(server netip.Addr) string {
	return "http://" + netip.AddrPortFrom(server, c.httpPort).String() + "/"
}

// program is one of iPXE's, if it is there.
func (c *chooser) program(name, base string) *dhcp.Target {
	file := c.files.IPXE(name)
	if file == "" {
		return nil
	}
	return &dhcp.Target{File: file, URL: base + file}
}

func (c *chooser) board(who dhcp.Client) string {
	if who.Stage == dhcp.RaspberryPi {
		for name, b := range c.files.Index().Boards {
			if b.Tree != "" {
				return name
			}
		}
		return ""
	}
	switch who.Arch {
	case dhcp.ARM64, dhcp.HTTPA64:
		return arm64Board
	case dhcp.BIOS, dhcp.IA32, dhcp.X64, dhcp.EBC, dhcp.HTTPIA32, dhcp.HTTPX64:
		return x86Board
	}
	return ""
}

// Targets implements dhcp.Boot.
func (c *chooser) Targets() []dhcp.Target {
	list := []dhcp.Target{}
	for _, b := range c.files.Index().Boards {
		if b.UKI != nil {
			list = append(list, dhcp.Target{File: b.UKI.Path})
		}
		list = append(list, dhcp.Target{File: b.Kernel.Path}, dhcp.Target{File: b.Initramfs.Path})
		if b.Tree != "" {
			for _, f := range c.files.PiFiles(b.Tree) {
				list = append(list, dhcp.Target{File: b.Tree + "/" + f})
			}
		}
	}
	return list
}

// exists is dhcp.Config's: the index was compared with the files already, and the
// trees were not.
func (c *chooser) exists(t dhcp.Target) error { return c.files.Check(t.File) }

// isLast tells the file after which a board has all that it boots, by the name that
// firmware sent.
func isLast(x netboot.Index, name string) bool {
	name, ok := tftp.Clean(name)
	if !ok {
		return false
	}
	for _, b := range x.Boards {
		if b.UKI != nil && b.UKI.Path == name || b.Initramfs.Path == name {
			return true
		}
		if b.Tree != "" && path.Base(name) == path.Base(b.Initramfs.Path) {
			return true // below a serial, or not
		}
	}
	return false
}
