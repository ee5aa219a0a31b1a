package boottest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/u-root/u-root/pkg/cpio"

	"machined/board"
	"machined/tools/lab"
)

// TestUpgradeFaults has everything go wrong with an upgrade that can: each time the
// node is back on what it ran before, and says why. It takes an hour: make
// upgrade-test.
func TestUpgradeFaults(t *testing.T) {
	upgradeBoards(t, func(t *testing.T, b board.Board) {
		u := newUpgrade(t, b)
		v1 := u.node.Store.Index.Version
		u.panics(v1)
		u.hangs(v1)
		u.cold()
		u.payloadFails("v-payload", "A", v1)
		u.truncated(v1)
		u.commit("v2", "B")
		u.randomCuts(20)
		good := "A"
		if u.waitAPI(t, "").GetSlot() == "A" {
			good = "B"
		}
		u.commit("v3", good)
		u.ctl(t, "shutdown requested\n", "shutdown")
		u.waitOff(t)
		checkDisk(t, u.node)
	})
}

// begin sends a bundle and returns when the node restarts into it.
func (u *upgradeTest) begin(path string) {
	u.t.Helper()
	if out, ok := u.try("upgrade", "--no-wait", path); !ok {
		u.t.Fatalf("the upgrade did not begin: %s", out)
	}
}

// back waits until the node runs what it ran before.
func (u *upgradeTest) back(version, why string) {
	u.t.Helper()
	u.eventually("end of the trial", func() (bool, any) {
		all, err := u.list("UpgradeStatus")
		return err == nil && all["upgrade"]["phase"] == "RolledBack", all
	})
	u.settled(u.t)
	u.rolledBack("A", version, why)
}

// panics installs a kernel that panics: it is told of an init that is not there.
func (u *upgradeTest) panics(before string) {
	u.t.Helper()
	u.begin(u.bundle("v-panic", "rdinit=/nothing root=/dev/nothing", nil))
	u.back(before, "v-panic did not get as far as its data volume")
	// The kernel for x86 keeps nothing of a panic. The Pi has restarted once more, to
	// find out what its firmware does.
	u.ended(map[string]string{"arm64-uefi": "panic", "x86_64-uefi": "rollback", "rpi-3a-plus": "upgrade"}[u.node.Board.Name])
}

// ended checks why the node went down before this boot.
func (u *upgradeTest) ended(reason string) {
	u.t.Helper()
	var b map[string]string
	u.eventually("word of the end before", func() (bool, any) {
		b = u.get(u.t, "BootStatus")["boot"]
		return b["boot_id"] != "", b
	})
	u.t.Logf("the end before: %s, %s", b["reason"], b["detail"])
	if b["reason"] != reason {
		u.t.Errorf("BootStatus = %v; want the reason %s", b, reason)
	}
}

// cold cuts the power of a node at rest.
func (u *upgradeTest) cold() {
	u.t.Helper()
	u.vm.Kill()
	u.again()
	u.ended("power")
}

// hangs installs an init that hangs. Where the machine has a watchdog, that ends
// it; the Pi's model has none that works, and the harness plays it.
func (u *upgradeTest) hangs(before string) {
	u.t.Helper()
	printed := strings.Count(u.printed(), hanging)
	u.begin(u.bundle("v-hang", "guest=hang", map[string][]byte{"initramfs.img": u.hangingInit()}))
	u.eventually("init that hangs", func() (bool, any) { return strings.Count(u.printed(), hanging) > printed, nil })
	reason := "watchdog"
	if u.node.Board.Name == "rpi-3a-plus" {
		u.again()
		reason = "rollback" // nothing tells of what there was
	}
	u.back(before, "v-hang did not get as far as its data volume")
	u.ended(reason)
}

const hanging = "guest: hanging"

func (u *upgradeTest) hangingInit() []byte {
	u.t.Helper()
	program := filepath.Join(u.t.TempDir(), "init")
	if err := lab.Compile(program, u.node.Board.Arch, "machined/tools/lab/guest"); err != nil {
		u.t.Fatal(err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		u.t.Fatal(err)
	}
	var out bytes.Buffer
	w := cpio.Newc.Writer(&out)
	err = cpio.WriteRecords(w, []cpio.Record{
		cpio.Directory("dev", 0o755), cpio.CharDev("dev/console", 0o600, 5, 1), cpio.StaticFile("init", string(content), 0o755),
	})
	if err := errors.Join(err, cpio.WriteTrailer(w)); err != nil {
		u.t.Fatal(err)
	}
	return out.Bytes()
}

// truncated damages what is staged while the machine is off: it is not tried when
// that shows, and given up when it shows only then.
func (u *upgradeTest) truncated(before string) {
	u.t.Helper()
	for _, keepSize := range []bool{false, true} {
		if out, ok := u.try("upgrade", "--stage", u.bundle("v-truncated", "", nil)); !ok {
			u.t.Fatalf("the bundle was not staged: %s", out)
		}
		u.ctl(u.t, "shutdown requested\n", "shutdown")
		u.waitOff(u.t)
		rubbish := filepath.Join(u.t.TempDir(), "rubbish")
		size := int64(1 << 20)
		if keepSize {
			size = int64(len(u.system))
		}
		if err := os.WriteFile(rubbish, nil, 0o600); err != nil {
			u.t.Fatal(err)
		}
		if err := os.Truncate(rubbish, size); err != nil {
			u.t.Fatal(err)
		}
		tool(u.t, "mcopy", "-o", "-i", bootVolume(u.t, u.node.Disk()), rubbish, "::B/system.squashfs")
		u.again()
		u.runs("A", before)
		out, ok := u.try("upgrade", "--staged")
		if ok || !keepSize && !strings.Contains(out, "not whole") {
			u.t.Fatalf("an upgrade that is damaged on the disk printed %q", out)
		}
		if keepSize {
			u.back(before, "its system cannot be used")
		}
		u.runs("A", before)
	}
}

// randomCuts cuts the power at random moments of upgrades, from the first byte to
// the commit. The node is on the one version or the other, and knows which.
func (u *upgradeTest) randomCuts(n int) {
	u.t.Helper()
	seed := rand.Uint64()
	u.t.Logf("the cuts are those of seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	begin := time.Now()
	u.commit("v2.0", map[string]string{"A": "B", "B": "A"}[u.waitAPI(u.t, "").GetSlot()])
	whole := time.Since(begin)
	for i := range n {
		v := u.waitAPI(u.t, "")
		before, slot := v.GetSlot(), u.get(u.t, "SlotStatus")
		after := time.Duration(random.Int64N(int64(whole)))
		version := "v2." + string(rune('a'+i))
		path := u.bundle(version, "", nil)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = exec.CommandContext(ctx, *ctlFlag, "--bundle", u.machine.bundle, "--endpoint", lab.Endpoint(u.vm), "upgrade", path).Run()
		}()
		time.Sleep(after)
		u.vm.Kill()
		cancel()
		<-done
		u.again()
		now := u.waitAPI(u.t, "").GetSlot()
		u.eventually("word of the upgrade", func() (bool, any) {
			all, err := u.list("UpgradeStatus")
			phase := all["upgrade"]["phase"]
			return err == nil && phase != "" && phase != "Trying" && phase != "Receiving", all
		})
		s := u.get(u.t, "UpgradeStatus")["upgrade"]
		u.t.Logf("cut %d after %s of %s: slot %s, %s: %s", i, after.Round(time.Millisecond), whole.Round(time.Second), now, s["phase"], s["message"])
		want := slot[before]["version"]
		if now != before {
			want = version
		}
		u.runs(now, want)
		if s["phase"] == "Idle" {
			u.t.Errorf("the node has forgotten its upgrades: %v", s)
		}
		if now != before && s["phase"] != "Committed" {
			u.t.Errorf("the node runs %s, and says %v", version, s)
		}
	}
}
