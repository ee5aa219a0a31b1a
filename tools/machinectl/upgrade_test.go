package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"machined/api"
	"machined/reconcile/resource"
)

// TestUpgradeCommands: each of the commands reaches the node, and says what the
// node makes of it.
func TestUpgradeCommands(t *testing.T) {
	l := newLab(t)
	file := filepath.Join(l.dir, "file")
	if err := os.WriteFile(file, make([]byte, 200<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	l.node.Applied = api.Applied{Warnings: []string{"f:1:2: no effect"}, AfterReboot: []string{"machine.runtime.socket"}}
	l.node.Resources[resource.UpgradeStatusKind] = []resource.Resource{resource.UpgradeStatus{Phase: "Staged", Slot: "B", ToVersion: "v2"}}
	sum := strings.Repeat("ab", 32)
	for _, tt := range []struct {
		args         string
		code         int
		stdout, says string
		asked        string
	}{
		{"upgrade --stage FILE", 0, "version v2 is staged in slot B\n", "version v2 is written to slot B and verified\n", "push of 204800 bytes {Stage:true ManualCommit:false Kexec:false} by laptop"},
		{"upgrade --no-wait --manual-commit FILE", 0, "restarting into the new version\n", "version v2 is written", "push of 204800 bytes {Stage:false ManualCommit:true Kexec:false} by laptop"},
		{"upgrade --stage http://h/b " + sum, 0, "version v2 is staged in slot B\n", "", "upgrade http://h/b " + sum + " {Stage:true ManualCommit:false Kexec:false} by laptop"},
		{"upgrade --staged --no-wait", 0, "restarting into the new version\n", "", "try of what is staged by laptop, kexec false"},
		{"upgrade http://h/b nonsense", 1, "", "want 64 hexadecimal digits", ""},
		{"upgrade http://h/b", exitUsage, "", "give a FILE, or a URL and the SHA-256", ""},
		{"upgrade FILE FILE", exitUsage, "", "give a FILE, or a URL and the SHA-256", ""},
		{"upgrade", exitUsage, "", "give a FILE, or a URL and the SHA-256", ""},
		{"upgrade nothing", 1, "", "no such file", ""},
		{"commit", 0, "committed\n", "", "commit by laptop"},
		{"rollback", 0, "rollback requested\n", "", "rollback by laptop"},
		{"reset", exitUsage, "", "say --yes if that is what you want", ""},
		{"reset --yes", 0, "reset requested\n", "", "reset, identity kept false, by laptop"},
		{"reset --yes --keep-identity", 0, "reset requested\n", "", "reset, identity kept true, by laptop"},
		{"apply FILE", 0, "applied\n", "warning: f:1:2: no effect\nafter the next boot: machine.runtime.socket\n", "config of 204800 bytes, dry run false, by laptop"},
		{"apply --dry-run FILE", 0, "valid, not applied\n", "", "config of 204800 bytes, dry run true, by laptop"},
	} {
		before := len(l.node.Asked())
		got := l.run(l.as("admin", strings.Fields(strings.ReplaceAll(tt.args, "FILE", file))...)...)
		asked := strings.Join(l.node.Asked()[before:], "; ")
		if got.code != tt.code || got.stdout != tt.stdout || !strings.Contains(got.stderr, tt.says) || asked != tt.asked {
			t.Errorf("machinectl %s = %+v and asked the node for %q; want %d, %q, %q and %q", tt.args, got, asked, tt.code, tt.stdout, tt.says, tt.asked)
		}
	}
}

// TestUpgradeEnds: how an upgrade has ended is what the command ends with.
func TestUpgradeEnds(t *testing.T) {
	for _, tt := range []struct {
		status resource.UpgradeStatus
		manual bool
		code   int
		says   string
	}{
		{resource.UpgradeStatus{Phase: "Committed", ToVersion: "v2", Message: "it was healthy"}, false, 0, "version v2 runs in slot A and is kept"},
		{resource.UpgradeStatus{Phase: "RolledBack", FromVersion: "v1", Message: "web is not healthy"}, false, 1, "the upgrade was not kept, version v1 runs again: web is not healthy"},
		{resource.UpgradeStatus{Phase: "Trying", Message: "healthy; `machinectl commit` keeps it"}, true, 0, "`machinectl commit` keeps it"},
		{resource.UpgradeStatus{Phase: "Trying", Message: "no API"}, false, 1, "the node has not said how the upgrade ended"},
	} {
		l := newLab(t)
		l.node.Resources[resource.UpgradeStatusKind] = []resource.Resource{tt.status}
		l.node.OnAsked = func() { l.node.Info.BootID = "another" } // it restarts at once
		file := filepath.Join(l.dir, "file")
		if err := os.WriteFile(file, []byte("bundle"), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"upgrade", "--wait", "1500ms", file}
		if tt.manual {
			args = slices.Insert(args, 1, "--manual-commit")
		}
		got := l.run(l.as("admin", args...)...)
		if got.code != tt.code || !strings.Contains(got.stdout+got.stderr, tt.says) {
			t.Errorf("after %+v machinectl ends with %+v; want %d and %q", tt.status, got, tt.code, tt.says)
		}
	}
}

// TestUpgradeFailsLate: what fails after the node was about to restart is told at
// once, and not when the time to wait is over.
func TestUpgradeFailsLate(t *testing.T) {
	l := newLab(t)
	l.node.Resources[resource.UpgradeStatusKind] = []resource.Resource{resource.UpgradeStatus{Phase: "Trying", ToVersion: "v2"}}
	var mu sync.Mutex
	lists := 0
	l.node.OnList = func() {
		mu.Lock()
		defer mu.Unlock()
		if lists++; lists == 4 {
			l.node.Resources[resource.UpgradeStatusKind] = []resource.Resource{resource.UpgradeStatus{Phase: "Failed", Message: "the loader's default is pinned"}}
		}
	}
	got := l.run(l.as("admin", "upgrade", "http://h/b", strings.Repeat("ab", 32))...)
	if got.code != 1 || !strings.Contains(got.stderr, "the upgrade was not kept: the loader's default is pinned") {
		t.Errorf("machinectl ends with %+v; want 1, and why", got)
	}
}
