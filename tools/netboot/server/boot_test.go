package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"machined/images/netboot"
	"machined/tools/netboot/dhcp"
	"machined/tools/netboot/registry"
)

// TestOffer has what each firmware is told to load, with and without iPXE's own
// programs in the directory.
func TestOffer(t *testing.T) {
	const base = "http://192.0.2.1:8080/"
	target := func(file string) dhcp.Target { return dhcp.Target{File: file, URL: base + file} }
	script, x86, arm := target("boot.ipxe"), target("x86_64-uefi/uki.efi"), target("arm64-uefi/uki.efi")
	dir := directory(t)
	for _, c := range []struct {
		stage dhcp.Stage
		arch  dhcp.Arch
		board string
		want  dhcp.Target
		file  string // that has to be there for that
	}{
		{dhcp.PXE, dhcp.BIOS, x86Board, target("ipxe/undionly.kpxe"), "ipxe/undionly.kpxe"},
		{dhcp.PXE, dhcp.IA32, x86Board, target("ipxe/ipxe-i386.efi"), "ipxe/ipxe-i386.efi"},
		{dhcp.HTTP, dhcp.HTTPIA32, x86Board, target("ipxe/ipxe-i386.efi"), "ipxe/ipxe-i386.efi"},
		{dhcp.PXE, dhcp.X64, x86Board, x86, ""},
		{dhcp.PXE, dhcp.EBC, x86Board, x86, ""},
		{dhcp.HTTP, dhcp.HTTPX64, x86Board, x86, ""},
		{dhcp.PXE, dhcp.ARM64, arm64Board, arm, ""},
		{dhcp.HTTP, dhcp.HTTPA64, arm64Board, arm, ""},
		{dhcp.IPXE, dhcp.BIOS, x86Board, script, ""},
		{dhcp.IPXE, dhcp.X64, x86Board, script, ""},
		{dhcp.IPXE, dhcp.ARM64, arm64Board, script, ""},
		{dhcp.RaspberryPi, dhcp.BIOS, "rpi-3a-plus", dhcp.Target{}, ""},
		{dhcp.PXE, dhcp.HTTPARM, "", dhcp.Target{}, "never"},
		{dhcp.PXE, dhcp.NoArch, "", dhcp.Target{}, "never"},
		{dhcp.PXE, dhcp.Arch(77), "", dhcp.Target{}, "never"},
	} {
		who := dhcp.Client{MAC: boardMAC, Stage: c.stage, Arch: c.arch, Server: serverIP}
		if c.file != "" {
			s, log := newServer(t, dir, nil)
			if got, ok := s.chooser.Offer(who); ok {
				t.Errorf("%s, %s is offered %v without %s; want nothing", c.stage, c.arch, got, c.file)
			}
			b, _, _ := s.Registry.Boards(0)
			if len(b) != 1 || !strings.Contains(b[0].Error, "nothing for it to load") || !strings.Contains(log.String(), "board fails") {
				t.Errorf("the boards are %+v, and the log\n%s; want one that has nothing to load", b, log)
			}
			if c.file == "never" {
				continue
			}
			put(t, dir, c.file, "iPXE")
		}
		s, _ := newServer(t, dir, nil)
		if got, ok := s.chooser.Offer(who); !ok || got != c.want {
			t.Errorf("%s, %s is offered %v, %v; want %v", c.stage, c.arch, got, ok, c.want)
		}
		if b, _, _ := s.Registry.Boards(0); len(b) != 1 || b[0].Name != c.board || b[0].Stage != registry.Offered {
			t.Errorf("the boards are %+v; want a %s that was offered something", b, c.board)
		}
		if c.file != "" {
			remove(t, dir, c.file)
		}
	}
}

// TestOfferNothing is for boards that are not wanted, and those that have installed
// themselves.
func TestOfferNothing(t *testing.T) {
	who := dhcp.Client{MAC: boardMAC, Stage: dhcp.PXE, Arch: dhcp.X64, Server: serverIP}
	s, _ := newServer(t, directory(t), func(o *Options) { o.Unknown = registry.Ignore })
	if got, ok := s.chooser.Offer(who); ok {
		t.Errorf("an ignored board is offered %v", got)
	}
	if err := s.Registry.Decide(registry.Name(boardMAC.String()), registry.Accept); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.chooser.Offer(who); !ok {
		t.Error("an accepted board is offered nothing")
	}
}

// TestIsLast knows the files by all names that firmware has for them.
func TestIsLast(t *testing.T) {
	s, _ := newServer(t, directory(t), nil)
	for name, want := range map[string]bool{
		"x86_64-uefi/uki.efi": true, `x86_64-uefi\uki.efi`: true, "/x86_64-uefi/uki.efi": true, `\arm64-uefi\\uki.efi`: true,
		"arm64-uefi/initramfs.img": true, "x86_64-uefi/kernel": false, "boot.ipxe": false, "uki.efi": false, "": false, "..": false,
		"b22faaeb/initramfs.img": true, "initramfs.img": true, "b22faaeb/kernel8.img": false, "b22faaeb/xinitramfs.img": false,
	} {
		if got := isLast(s.files.Index(), name); got != want {
			t.Errorf("isLast(%q) = %v; want %v", name, got, want)
		}
	}
}

// TestMissingFile names what is offered and not there, before anything is served.
func TestMissingFile(t *testing.T) {
	for name, want := range map[string]string{
		"rpi-3a-plus/bootcode.bin": "bootcode.bin", "rpi-3a-plus/config.txt": "config.txt", "rpi-3a-plus/fixup.dat": "rpi-3a-plus/fixup.dat",
		"rpi-3a-plus/bcm2710-rpi-3-b-plus.dtb": "bcm2710-rpi-3-b-plus.dtb", "rpi-3a-plus/initramfs.img": "initramfs.img", "x86_64-uefi/uki.efi": "x86_64-uefi/uki.efi",
		"pki/ca.crt": "CA", netboot.IndexName: netboot.IndexName,
	} {
		dir := directory(t)
		remove(t, dir, name)
		if _, err := New(options(dir, new(said))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New() without %s = %v; want an error that names it", name, err)
		}
	}
	dir := directory(t)
	put(t, dir, "configs/one.yaml", "machine: {hostnam: x}\n")
	put(t, dir, "configs/two.yaml", "machine: {{.Nothing}}\n")
	if _, err := New(options(dir, new(said))); err == nil || !strings.Contains(err.Error(), "one.yaml") || !strings.Contains(err.Error(), "two.yaml") {
		t.Errorf("New() = %v with two bad configs; want both", err)
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
		t.Fatal(err)
	}
}
