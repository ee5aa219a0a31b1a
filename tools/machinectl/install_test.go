package main

import (
	"strings"
	"testing"

	"machined/reconcile/resource"
)

// TestInstallCommand: the node is asked, and what it says of the installation is
// what the command ends with.
func TestInstallCommand(t *testing.T) {
	for _, tt := range []struct {
		args, phase  string
		slot         string // after the restart
		code         int
		stdout, says string
		asked        string
	}{
		{"install --disk /dev/sda", "Installed", "A", 0, "installed on /dev/sda, slot A runs\n", "", "installation on /dev/sda, wipe false, no reboot false, by laptop"},
		{"install --disk /dev/sda --wipe", "Installed", "A", 0, "installed on /dev/sda, slot A runs\n", "", "installation on /dev/sda, wipe true, no reboot false, by laptop"},
		{"install --disk /dev/sda", "Installed", "", 1, "", "have its firmware boot from /dev/sda", "installation on /dev/sda, wipe false, no reboot false, by laptop"},
		{"install --disk /dev/sda --no-reboot", "Installed", "", 0, "installed on /dev/sda; a restart boots from it\n", "", "installation on /dev/sda, wipe false, no reboot true, by laptop"},
		{"install --disk /dev/sda --no-wait", "Installing", "", 0, "installing on /dev/sda\n", "", "installation on /dev/sda, wipe false, no reboot false, by laptop"},
		{"install --disk /dev/sda", "Failed", "", 1, "", "the node was not installed: the link is down", "installation on /dev/sda, wipe false, no reboot false, by laptop"},
		{"install --disk /dev/sda --wait 1500ms", "Installing", "", 1, "", "has not said how the installation ended", "installation on /dev/sda, wipe false, no reboot false, by laptop"},
		{"install --disk sda", "", "", 1, "", `the disk is "sda"; want a path`, ""},
		{"install", "", "", exitUsage, "", `required flag(s) "disk" not set`, ""},
	} {
		l := newLab(t)
		l.node.Resources[resource.InstallStatusKind] = []resource.Resource{resource.InstallStatus{Phase: tt.phase, Disk: "/dev/sda", Message: "the link is down", Bytes: 1, TotalBytes: 2}}
		l.node.OnAsked = func() {
			if tt.phase == "Installed" && !strings.Contains(tt.args, "no-reboot") {
				l.node.Info.BootID, l.node.Info.Slot = "another", tt.slot
			}
		}
		got := l.run(l.as("admin", strings.Fields(tt.args)...)...)
		if asked := strings.Join(l.node.Asked(), "; "); got.code != tt.code || got.stdout != tt.stdout || !strings.Contains(got.stderr, tt.says) || asked != tt.asked {
			t.Errorf("machinectl %s with %s = %+v and asked for %q; want %d, %q, %q and %q", tt.args, tt.phase, got, asked, tt.code, tt.stdout, tt.says, tt.asked)
		}
	}
}
