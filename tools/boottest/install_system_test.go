package boottest

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"machined/board"
	"machined/images/netboot"
	"machined/tools/lab"
	"machined/tools/qemu"
)

// TestInstallSystem has a node write itself to a second disk, and boots that one
// alone: with a GPT for a board with UEFI, with an MBR for one without.
func TestInstallSystem(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"x86_64-uefi", "arm64-mbr"} {
		t.Run(name, func(t *testing.T) {
			b, _ := board.ByName(name)
			only(t, b)
			t.Parallel()
			n := build(t, lab.Options{Board: b, Config: []byte(plainConfig)})
			disk := filepath.Join(t.TempDir(), "disk")
			if err := errors.Join(os.WriteFile(disk, nil, 0o600), os.Truncate(disk, 1<<30)); err != nil {
				t.Fatal(err)
			}
			tool(t, "mkfs.ext4", "-q", "-L", "photos", disk)
			foreign := hashOf(t, disk)
			m := start(t, n, func(o *qemu.Options) { o.USBDisk = disk })
			m.waitAPI(t, "")
			m.settled(t)
			plug(t, m.vm.PlugUSB)
			m.waitDisk(t, "sda")
			identity := m.serverFingerprint(t)
			m.refuses(t, `it holds ext4 "photos"`, "install", "--disk", "/dev/sda")
			m.refuses(t, "there is no disk /dev/none", "install", "--disk", "/dev/none", "--wipe")
			m.refuses(t, "the node runs from /dev/vda", "install", "--disk", "/dev/vda", "--wipe")
			if hashOf(t, disk) != foreign {
				t.Fatal("the foreign disk was written to without consent")
			}
			m.ctl(t, "installed on /dev/sda; a restart boots from it\n", "install", "--disk", "/dev/sda", "--wipe", "--no-reboot")
			m.waitConsole(t, "install: /dev/sda Installed")
			m.refuses(t, "a node is on /dev/sda already", "install", "--disk", "/dev/sda", "--wipe")
			m.ctl(t, "shutdown requested\n", "shutdown")
			m.waitOff(t)
			bootsAlone(t, n, disk, identity)
		})
	}
}

// bootsAlone boots a node from the disk that it was installed on, and has real
// tools judge that.
func bootsAlone(t *testing.T, n *lab.Node, disk, identity string) {
	t.Helper()
	alone := *n
	m := start(t, &alone, func(o *qemu.Options) { o.Disk = disk })
	m.waitAPI(t, "")
	m.settled(t)
	if got := m.serverFingerprint(t); identity != "" && got != identity {
		t.Errorf("the installed node's certificate is %s; want %s, which it was installed with", got, identity)
	}
	var slots map[string]map[string]string
	u := upgradeTest{machine: m, t: t}
	u.eventually("word of the slots", func() (bool, any) {
		slots = m.get(t, "SlotStatus")
		return len(slots) == 2, slots
	})
	for _, s := range []string{"A", "B"} {
		if slots[s]["state"] != "good" || slots[s]["version"] != slots["A"]["version"] || slots[s]["version"] == "" {
			t.Errorf("slot %s is %v; want both good, of the same version", s, slots[s])
		}
	}
	if b := m.get(t, "BootStatus")["boot"]; b["slot"] != "A" || b["problem"] != "" {
		t.Errorf("BootStatus = %v; want slot A and no problem", b)
	}
	m.ctl(t, "shutdown requested\n", "shutdown")
	m.waitOff(t)
	list := partitions(t, disk)
	if len(list) != allPlaces {
		t.Fatalf("the disk has %d partitions; want the boot partition, STATE and EPHEMERAL", len(list))
	}
	boot := filepath.Join(t.TempDir(), "boot")
	copyRange(t, disk, boot, list[bootPlace].start, list[bootPlace].size)
	tool(t, "fsck.fat", "-n", boot)
	if n.Board.Firmware == board.UEFI {
		if out := tool(t, "sgdisk", "-v", disk); !strings.Contains(out, "No problems found") {
			t.Errorf("sgdisk -v says %s", out)
		}
	}
	for _, place := range []int{statePlace, ephemeralPlace} {
		tool(t, "e2fsck", "-fn", volume(t, disk, place))
	}
}

// refuses has machinectl fail with a reason.
func (m *machine) refuses(t *testing.T, why string, args ...string) {
	t.Helper()
	u := upgradeTest{machine: m, t: t}
	if out, ok := u.try(args...); ok || !strings.Contains(out, why) {
		t.Errorf("machinectl %s printed %q; want that it is refused: %s", strings.Join(args, " "), out, why)
	}
}

// waitDisk waits until the node knows a disk.
func (m *machine) waitDisk(t *testing.T, name string) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if _, ok := m.get(t, "DiskStatus")[name]; ok {
			return
		}
	}
	t.Fatalf("the node does not know the disk %s", name)
}

// TestInstallNetbooted has a node that runs from RAM install itself on the disk that
// its server's config names, and boots it from there with the server gone.
func TestInstallNetbooted(t *testing.T) {
	b, _ := board.ByName("x86_64-uefi")
	only(t, b)
	t.Parallel()
	dir, built := buildNetboot(t, b)
	s := startEnroll(t, dir, []answer{good})
	s.config = "machine: {hostname: ram-1, runtime: {disabled: true}, install: {disk: /dev/vda}}\n"
	s.image = filepath.Join(dir, filepath.FromSlash(built.Image.Path))
	disk := filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.WriteFile(disk, nil, 0o600), os.Truncate(disk, 1<<30)); err != nil {
		t.Fatal(err)
	}
	m := startRAM(t, dir, b, built, false, s, "-drive", "file="+disk+",if=none,id=d0,format=raw", "-device", "virtio-blk-pci,drive=d0")
	m.waitAPI(t)
	s.waitPhase(t, "installing", m.printed)
	s.waitPhase(t, "installed", m.printed)
	m.waitOff(t) // it restarts
	s.check(t)
	s.Close()
	n := &lab.Node{Options: lab.Options{Board: b, Dir: t.TempDir()}, Bundle: filepath.Join(dir, netboot.BundleDir)}
	bootsAlone(t, n, disk, "")
}

// serveImage answers with what a node is installed from.
func (s *enrollServer) serveImage(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+enrollSession {
		http.Error(w, "no session", http.StatusForbidden)
		return
	}
	http.ServeFile(w, r, s.image)
}
