package boottest

import (
	"strings"
	"testing"

	"machined/board"
	"machined/tools/qemu"
)

// TestUpgradeKexec has a version tried by kexec: it runs, is not kept, and is kept
// once the firmware has started it.
func TestUpgradeKexec(t *testing.T) {
	upgradeBoards(t, func(t *testing.T, b board.Board) {
		u := newUpgrade(t, b)
		v1 := u.node.Store.Index.Version
		if b.Firmware == board.RaspberryPi {
			out, ok := u.try("upgrade", "--kexec", u.bundle("v2", "", nil))
			if ok || !strings.Contains(out, "this node's kernel cannot start another one") {
				t.Errorf("an upgrade by kexec printed %q; want that it is refused", out)
			}
			u.runs("A", v1)
			return
		}
		first := u.runs("A", v1)
		out, ok := u.try("upgrade", "--kexec", u.bundle("v2", "", nil))
		if !ok || !strings.Contains(out, "version v2 runs in slot B and is healthy; started by kexec") {
			t.Fatalf("an upgrade by kexec printed %q", out)
		}
		if second := u.runs("B", "v2"); second == first {
			t.Errorf("slot B runs in boot %s, which is that of slot A", second)
		}
		if b := u.get(t, "BootStatus")["boot"]; b["trial"] != "true" || b["problem"] != "" {
			t.Errorf("BootStatus = %v; want a trial without a problem", b)
		}
		if out, ok := u.try("commit"); ok || !strings.Contains(out, "started by kexec") {
			t.Errorf("commit printed %q; want that kexec proves nothing", out)
		}
		u.ctl(t, "reboot requested\n", "reboot")
		u.runs("A", v1)
		u.settled(t)
		if s := u.get(t, "UpgradeStatus")["upgrade"]; s["phase"] != "Staged" || !strings.Contains(s["message"], "was healthy when kexec had started it") {
			t.Errorf("UpgradeStatus = %v; want it staged, and known to have been healthy", s)
		}
		if out, ok := u.try("upgrade", "--staged"); !ok || !strings.Contains(out, "is kept") {
			t.Fatalf("the trial of what kexec had tried printed %q", out)
		}
		u.runs("B", "v2")
	})
}

// TestUpgradeFirmware is on a Pi whose firmware ignores the request for a trial:
// the node finds out, says so, and upgrades all the same when it is asked again.
func TestUpgradeFirmware(t *testing.T) {
	for _, name := range []string{"rpi-3a-plus", "arm64-mbr"} {
		t.Run(name, func(t *testing.T) {
			b, _ := board.ByName(name)
			only(t, b)
			t.Parallel()
			u := newUpgradeOn(t, b, func(o *qemu.Options) { o.IgnoreTryboot = true })
			v1 := u.node.Store.Index.Version
			out, ok := u.try("upgrade", u.bundle("v2", "", nil))
			if ok || !strings.Contains(out, "the firmware ignores the request to try version v2") {
				t.Fatalf("an upgrade that the firmware did not try printed %q", out)
			}
			u.runs("A", v1)
			if b := u.get(t, "BootStatus")["boot"]; !strings.Contains(b["problem"], "the firmware ignores the request for a trial") {
				t.Errorf("BootStatus = %v; want the firmware named", b)
			}
			u.settled(t)
			if out, ok := u.try("upgrade", "--staged"); !ok || !strings.Contains(out, "is kept") {
				t.Fatalf("the second try printed %q", out)
			}
			u.runs("B", "v2")
			u.payloadFails("v3", "B", "v2")
		})
	}
}
