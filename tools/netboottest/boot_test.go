package netboottest

import (
	"strings"
	"testing"

	"machined/tools/netboot/registry"
)

// Firmware and ROMs, from Debian's packages.
const (
	ovmf  = "/usr/share/OVMF/OVMF_CODE_4M.fd"
	aavmf = "/usr/share/AAVMF/AAVMF_CODE.fd"
	// ipxeROM is iPXE for a BIOS and for UEFI, QEMU's default for virtio-net-pci.
	ipxeROM = "/usr/lib/ipxe/qemu/efi-virtio.rom"
)

// x86 and arm64 are the boards.
const (
	x86   = "x86_64-uefi"
	arm64 = "arm64-uefi"
)

// TestUEFIPXE is OVMF's own PXE: a UKI by TFTP.
func TestUEFIPXE(t *testing.T) {
	need(t, "qemu-system-x86_64", ovmf)
	s := serve(t, directory(t, x86), pool...)
	b := power(t, machine{n: 1, nic: noROM}).up(s)
	judge(t, b, "pxe, x86-64 UEFI", "x86_64-uefi/uki.efi")
}

// TestBIOSiPXE is iPXE in the ROM of a NIC of a PC with a BIOS: a script, then
// kernel and initramfs by HTTP.
func TestBIOSiPXE(t *testing.T) {
	need(t, "qemu-system-x86_64", ipxeROM)
	s := serve(t, biosDirectory(t), pool...)
	b := power(t, machine{n: 1, bios: true, nic: withIPXE}).up(s)
	judge(t, b, "ipxe, x86 BIOS", "x86_64-uefi/initramfs.img")
}

// TestUEFIiPXE is the same with UEFI.
func TestUEFIiPXE(t *testing.T) {
	need(t, "qemu-system-x86_64", ovmf, ipxeROM)
	s := serve(t, directory(t, x86), pool...)
	b := power(t, machine{n: 1, nic: withIPXE}).up(s)
	judge(t, b, "ipxe, x86-64 UEFI", "x86_64-uefi/initramfs.img")
}

// TestUEFIHTTP is OVMF's HTTP boot, which would come after PXE has failed by IPv4
// and IPv6: minutes.
func TestUEFIHTTP(t *testing.T) {
	need(t, "qemu-system-x86_64", ovmf)
	s := serve(t, directory(t, x86), pool...)
	b := power(t, machine{n: 1, nic: noROM, more: []string{
		"-fw_cfg", "name=opt/org.tianocore/IPv4PXESupport,string=n", "-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=n",
	}}).up(s)
	judge(t, b, "http, x86-64 UEFI HTTP", "x86_64-uefi/uki.efi")
}

// TestARM64PXE is AAVMF's PXE.
func TestARM64PXE(t *testing.T) {
	need(t, "qemu-system-aarch64", aavmf)
	s := serve(t, directory(t, arm64), pool...)
	b := power(t, machine{n: 1, arm64: true, nic: noROM, memoryMB: 1024}).up(s)
	judge(t, b, "pxe, arm64 UEFI", "arm64-uefi/uki.efi")
}

// TestProxy stands beside a DHCP server that knows nothing of boards. What there is
// for iPXE depends on the board, which nobody but the link knows there: once its first
// request found nothing.
func TestProxy(t *testing.T) {
	need(t, "qemu-system-x86_64", ovmf, ipxeROM, "dnsmasq")
	for _, c := range []struct {
		name, client, file string
		machine            machine
		dir                func(*testing.T) string
	}{
		{"UEFI", "pxe, x86-64 UEFI", "x86_64-uefi/uki.efi", machine{n: 1, nic: noROM}, func(t *testing.T) string { return directory(t, x86) }},
		{"iPXE", "ipxe, x86 BIOS", "x86_64-uefi/initramfs.img", machine{n: 2, bios: true, nic: withIPXE}, biosDirectory},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, c.dir(t), "--proxy")
			router(t)
			b := power(t, c.machine).up(s)
			judge(t, b, c.client, c.file)
			if !strings.HasPrefix(b.Address, "10.77.0.5") && b.Address != "10.77.0.60" {
				t.Errorf("the board has the address %s; want one of dnsmasq's", b.Address)
			}
		})
	}
}

// judge checks what the server knows of a board that is up.
func judge(t *testing.T, b registry.Board, client, file string) {
	t.Helper()
	if b.Client != client || b.File != file || b.Bytes != b.Total || b.Total == 0 || b.Error != "" || b.Config != "default.yaml" {
		t.Errorf("the server says %+v; want %s, all of %s, and no error", b, client, file)
	}
}
