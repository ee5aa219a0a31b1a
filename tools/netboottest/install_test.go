package netboottest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"machined/tools/netboot/registry"
	"machined/tools/netlab"
)

// TestInstall is a board with an empty disk that its config names: it is netbooted,
// writes itself to the disk, is let to boot from there though its firmware asks the
// network first, and comes up with the server gone.
func TestInstall(t *testing.T) {
	need(t, "qemu-system-x86_64", ovmf, "dnsmasq")
	dir := directory(t, x86)
	file := filepath.Join(dir, "configs", "default.yaml")
	if err := os.Remove(file); err != nil { // it is a link
		t.Fatal(err)
	}
	text := strings.Replace(config, "runtime:", "install: {disk: /dev/vda}\n  runtime:", 1)
	disk := filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.WriteFile(disk, nil, 0o600), os.Truncate(disk, 1<<30)); err != nil {
		t.Fatal(err)
	}
	s := serve(t, dir, "--proxy")
	router(t)                                // which gives out addresses when the server is gone, too
	withDisk := func(place string) machine { // in the order of what is booted
		return machine{n: 1, nic: noROM, more: []string{
			"-drive", "file=" + disk + ",if=none,id=d0,format=raw", "-device", "virtio-blk-pci,drive=d0,bootindex=" + place,
			"-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=n",
		}}
	}
	v := power(t, withDisk("2"))
	s.waitStage(v.mac, registry.Installing)
	b := s.waitStage(v.mac, registry.Installed)
	v.fromDisk(s, b)
	s.kill()
	v.off()
	netlab.Run(t, "ip", "link", "del", "tap1")
	// Without the minutes in which firmware looks for a server that is gone.
	power(t, withDisk("0")).fromDisk(s, b)
}

// fromDisk waits until a slot of the disk runs, and not what was netbooted.
func (v *vm) fromDisk(s *server, b registry.Board) {
	v.t.Helper()
	eventually(v.t, "the node runs from its disk", func() (bool, string) {
		out := v.ctl(s, b, "get", "SlotStatus")
		return strings.Contains(out, "slot=A version="+b.Version+" state=good running=true") && strings.Contains(out, "slot=B version="+b.Version+" state=good"), out
	})
}
