package boottest

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"machined/board"
)

// TestUpgradeAsked is what a person does to a node by hand: an upgrade that is
// committed, the way back, and both kinds of reset.
func TestUpgradeAsked(t *testing.T) {
	upgradeBoards(t, func(t *testing.T, b board.Board) {
		a := &askedTest{upgradeTest: newUpgrade(t, b)}
		a.v1, a.identity = a.node.Store.Index.Version, a.serverFingerprint(t)
		a.committed("v2")
		a.wentBack("v2")
		// The model of the Pi would erase its card for an hour.
		if b.Firmware == board.UEFI {
			a.filled()
			a.resetButIdentity()
			a.resetWhole()
		}
		a.ctl(t, "shutdown requested\n", "shutdown")
		a.waitOff(t)
		if b.Firmware == board.UEFI {
			a.checkSlots()
		}
		checkDisk(t, a.node)
	})
}

// askedTest is a node, and what it is compared with.
type askedTest struct {
	*upgradeTest
	v1, identity     string
	state, ephemeral string            // UUIDs of the file systems
	slots            map[string][]byte // files of both slots
}

// committed has a version tried, which stays on trial until it is told otherwise.
func (a *askedTest) committed(version string) {
	a.t.Helper()
	out, ok := a.try("upgrade", "--manual-commit", a.bundle(version, "", nil))
	if !ok || !strings.Contains(out, "version "+version+" runs in slot B and is healthy; `machinectl commit` keeps it") {
		a.t.Fatalf("the upgrade to %s printed %q; want it healthy, and not kept", version, out)
	}
	a.runs("B", version)
	a.becomes("UpgradeStatus", "upgrade", map[string]string{"phase": "Trying", "from_version": a.v1, "to_version": version})
	a.becomes("BootStatus", "boot", map[string]string{"trial": "true", "reason": "upgrade"})
	a.becomes("SlotStatus", "A", map[string]string{"default": "true", "running": "false"})

	a.ctl(a.t, "committed\n", "commit")
	a.becomes("UpgradeStatus", "upgrade", map[string]string{"phase": "Committed", "to_version": version})
	a.becomes("BootStatus", "boot", map[string]string{"trial": "false"})
	a.becomes("SlotStatus", "B", map[string]string{"default": "true", "state": "good"})
	if out, ok := a.try("commit"); ok {
		a.t.Errorf("a second commit printed %q; want it refused", out)
	}
}

// wentBack goes back from a version that was committed to the one before.
func (a *askedTest) wentBack(from string) {
	a.t.Helper()
	before := a.waitAPI(a.t, "").GetBootId()
	a.ctl(a.t, "rollback requested\n", "rollback")
	a.waitAPI(a.t, before)
	a.runs("A", a.v1)
	a.settled(a.t)
	a.becomes("UpgradeStatus", "upgrade", map[string]string{"phase": "RolledBack", "from_version": a.v1, "to_version": from, "message": "asked for by"})
	a.becomes("BootStatus", "boot", map[string]string{"reason": "rollback", "detail": "asked for by", "trial": "false", "problem": ""})
	a.becomes("SlotStatus", "A", map[string]string{"default": "true", "state": "good"})
	if got := a.serverFingerprint(a.t); got != a.identity {
		a.t.Errorf("the node's certificate is %s; want %s", got, a.identity)
	}
}

// secret is what must not be found on a disk that was reset.
var secret = bytes.Repeat([]byte("what the owner has kept. "), 4<<10)

// filled gives the volumes of the node, which is off meanwhile, something to lose,
// and it a config. After the cold start it still is what it went back to.
func (a *askedTest) filled() {
	a.t.Helper()
	a.ctl(a.t, "shutdown requested\n", "shutdown")
	a.waitOff(a.t)
	disk := a.node.Disk()
	for _, place := range []int{statePlace, ephemeralPlace} {
		plant(a.t, disk, place, "secret", secret)
		if !a.keeps(place) {
			a.t.Fatalf("the secret is not found in partition %d, in which it was put", place+1)
		}
	}
	a.state, a.ephemeral = uuid(a.t, volume(a.t, disk, statePlace)), uuid(a.t, volume(a.t, disk, ephemeralPlace))
	a.slots = a.slotFiles()

	a.again()
	a.runs("A", a.v1)
	a.becomes("UpgradeStatus", "upgrade", map[string]string{"phase": "RolledBack", "message": "asked for by"})
	config := filepath.Join(a.t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte(strings.Replace(upgradeConfig, "node-1", "node-2", 1)), 0o600); err != nil {
		a.t.Fatal(err)
	}
	a.ctl(a.t, "applied\n", "apply", config)
	a.becomes("MachineConfig", "machine-config", map[string]string{"source": "/system/state/config.yaml", "bytes": "hostname: node-2"})
}

// keeps looks for the secret in all of a partition.
func (a *askedTest) keeps(place int) bool {
	a.t.Helper()
	p := partitions(a.t, a.node.Disk())[place]
	f, err := os.Open(a.node.Disk())
	if err != nil {
		a.t.Fatal(err)
	}
	defer f.Close()
	chunk := make([]byte, 1<<20)
	for off := int64(0); off < p.size; off += int64(len(chunk)) {
		n, err := f.ReadAt(chunk[:min(int64(len(chunk)), p.size-off)], p.start+off)
		if err != nil {
			a.t.Fatal(err)
		}
		if bytes.Contains(chunk[:n], secret[:250]) {
			return true
		}
	}
	return false
}

// reset resets the node and waits until it is there again, as v1 by the config of
// the boot partition.
func (a *askedTest) reset(args ...string) {
	a.t.Helper()
	before := a.waitAPI(a.t, "").GetBootId()
	a.ctl(a.t, "reset requested\n", append([]string{"reset", "--yes"}, args...)...)
	a.waitAPI(a.t, before)
	a.settled(a.t)
	a.runs("A", a.v1)
	a.becomes("MachineConfig", "machine-config", map[string]string{"source": "/boot/machined/config.yaml", "bytes": upgradeConfig})
	a.becomes("SlotStatus", "B", map[string]string{"version": "v2", "running": "false"})
	if all := a.get(a.t, "UpgradeStatus"); all["upgrade"]["message"] != "" {
		a.t.Errorf("UpgradeStatus = %v; want what STATE had of upgrades gone", all)
	}
	if a.keeps(ephemeralPlace) {
		a.t.Error("EPHEMERAL still has the secret")
	}
	if got := a.serverFingerprint(a.t); got != a.identity {
		a.t.Errorf("the node's certificate is %s; want %s", got, a.identity)
	}
}

// resetButIdentity takes the data and the config.
func (a *askedTest) resetButIdentity() {
	a.t.Helper()
	a.reset("--keep-identity")
	a.becomes("BootStatus", "boot", map[string]string{"reason": "reset", "detail": "asked by"})
	disk := a.node.Disk()
	if got := uuid(a.t, volume(a.t, disk, statePlace)); got != a.state {
		a.t.Errorf("STATE has the UUID %s; want it to be the one that was there, %s", got, a.state)
	}
	ephemeral := uuid(a.t, volume(a.t, disk, ephemeralPlace))
	if ephemeral == a.ephemeral {
		a.t.Error("EPHEMERAL is the one that was there; want it made anew")
	}
	a.ephemeral = ephemeral
}

// resetWhole takes all: the node is as it was flashed. Its image has its identity,
// and nothing in STATE is left to say what happened.
func (a *askedTest) resetWhole() {
	a.t.Helper()
	a.reset()
	a.becomes("BootStatus", "boot", map[string]string{"reason": "", "problem": ""})
	disk := a.node.Disk()
	if got := uuid(a.t, volume(a.t, disk, statePlace)); got == a.state {
		a.t.Error("STATE is the one that was there; want it made anew")
	}
	if got := uuid(a.t, volume(a.t, disk, ephemeralPlace)); got == a.ephemeral {
		a.t.Error("EPHEMERAL is the one that was there; want it made anew")
	}
	if a.keeps(statePlace) {
		a.t.Error("STATE still has the secret")
	}
}

// slotFiles returns the files of both slots on the disk of a node that is off.
func (a *askedTest) slotFiles() map[string][]byte {
	a.t.Helper()
	dir := a.t.TempDir()
	tool(a.t, "mcopy", "-s", "-i", bootVolume(a.t, a.node.Disk()), "::A", "::B", dir)
	files := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[path[len(dir):]], err = os.ReadFile(path)
		return err
	})
	if err != nil || len(files) < 6 {
		a.t.Fatalf("both slots have %d files, %v; want three each at least", len(files), err)
	}
	return files
}

// checkSlots compares both slots with what they were before the resets.
func (a *askedTest) checkSlots() {
	a.t.Helper()
	if now := a.slotFiles(); !maps.EqualFunc(now, a.slots, bytes.Equal) {
		a.t.Error("the resets have changed the slots on the boot partition")
	}
}

// becomes waits until the fields of a resource are, or have in them, what want says;
// "" is exact.
func (a *askedTest) becomes(kind, id string, want map[string]string) {
	a.t.Helper()
	a.eventually(fmt.Sprintf("%s %s with %q", kind, id, want), func() (bool, any) {
		all, err := a.list(kind)
		if err != nil {
			return false, err
		}
		for field, value := range want {
			got, ok := all[id][field]
			if !ok || !strings.Contains(got, value) || value == "" && got != "" {
				return false, all
			}
		}
		return true, nil
	})
}
