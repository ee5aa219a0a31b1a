package boottest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"machined/board"
	"machined/images"
	"machined/images/bundle"
	"machined/tools/lab"
	"machined/tools/qemu"
)

// upgradeConfig has a payload that a system proves itself by: on one whose kernel
// was told so it fails.
const upgradeConfig = `machine:
  hostname: node-1
  time: {disabled: true}
  runtime: {disabled: true}
  services:
  - {id: payload, command: [/boot/programs/guest, unless, payload=bad], restart: always, critical: true}
  upgrade: {health: {hold_secs: 3, deadline_secs: 45}}
`

// upgradeTest is a node and the bundles that it is given.
type upgradeTest struct {
	*machine
	t    *testing.T
	base string // bundle of what the node runs
	edit func(*qemu.Options)
	// system is the system image without the container runtime, which the nodes
	// here do not run: the model of the Pi takes minutes to write it.
	system []byte
}

const systemFile = "system.squashfs"

func slimSystem(t *testing.T, image []byte) []byte {
	t.Helper()
	dir := t.TempDir()
	whole, slim, root := filepath.Join(dir, "whole"), filepath.Join(dir, "slim"), filepath.Join(dir, "root")
	if err := os.WriteFile(whole, image, 0o600); err != nil {
		t.Fatal(err)
	}
	tool(t, "unsquashfs", "-quiet", "-no-progress", "-dest", root, whole)
	for _, path := range []string{"usr/bin", "usr/lib/cni"} {
		if err := os.RemoveAll(filepath.Join(root, path)); err != nil {
			t.Fatal(err)
		}
	}
	tool(t, "mksquashfs", root, slim, "-quiet", "-no-progress", "-comp", "gzip", "-b", "128K")
	out, err := os.ReadFile(slim)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func newUpgrade(t *testing.T, b board.Board) *upgradeTest {
	t.Helper()
	return newUpgradeOn(t, b, nil)
}

// newUpgradeOn is newUpgrade on a machine with a peculiarity.
func newUpgradeOn(t *testing.T, b board.Board, edit func(*qemu.Options)) *upgradeTest {
	t.Helper()
	program, _, err := lab.Guest(t.TempDir(), b)
	if err != nil {
		t.Fatal(err)
	}
	n := build(t, lab.Options{Board: b, Config: []byte(upgradeConfig), Programs: map[string]string{"guest": program}})
	u := &upgradeTest{t: t, base: filepath.Join(t.TempDir(), "base.bundle")}
	if _, err := images.BuildBundle(u.base, images.BundleOptions{Board: b, Store: n.Store}); err != nil {
		t.Fatal(err)
	}
	u.machine, u.edit = start(t, n, edit), edit
	u.waitAPI(t, "")
	u.settled(t)
	return u
}

// bundle writes the base bundle with another version, further arguments of the
// kernel and other files.
func (u *upgradeTest) bundle(version, arguments string, files map[string][]byte) string {
	u.t.Helper()
	in, err := os.Open(u.base)
	if err != nil {
		u.t.Fatal(err)
	}
	defer in.Close()
	r, err := bundle.NewReader(in)
	if err != nil {
		u.t.Fatal(err)
	}
	if err := r.Verify(nil); err != nil {
		u.t.Fatal(err)
	}
	m := *r.Manifest()
	m.Version = version
	m.Arguments = strings.TrimSpace(m.Arguments + " " + arguments)
	content := make(map[string][]byte)
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			u.t.Fatal(err)
		}
		if content[f.Path], err = io.ReadAll(r); err != nil {
			u.t.Fatal(err)
		}
	}
	if u.system == nil {
		u.system = slimSystem(u.t, content[systemFile])
	}
	content[systemFile] = u.system
	for i, f := range m.Files {
		if other, ok := files[f.Path]; ok || f.Path == systemFile {
			if ok {
				content[f.Path] = other
			}
			other = content[f.Path]
			m.Files[i].Size, m.Files[i].SHA256 = int64(len(other)), sha256.Sum256(other)
		}
	}
	path := filepath.Join(u.t.TempDir(), version+".bundle")
	out, err := os.Create(path)
	if err != nil {
		u.t.Fatal(err)
	}
	open := func(name string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content[name])), nil }
	if err := errors.Join(bundle.Write(out, m, open, nil), out.Close()); err != nil {
		u.t.Fatal(err)
	}
	return path
}

// try runs machinectl and returns what it printed, and whether it succeeded.
func (u *upgradeTest) try(args ...string) (string, bool) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, *ctlFlag, append([]string{"--bundle", u.machine.bundle, "--endpoint", lab.Endpoint(u.vm), "--timeout", "30s"}, args...)...)
	out, err := cmd.CombinedOutput()
	u.t.Logf("machinectl %s: %v\n%s", strings.Join(args, " "), err, out)
	return string(out), err == nil
}

// runs checks which slot runs, and returns the boot's id.
func (u *upgradeTest) runs(slot, version string) string {
	u.t.Helper()
	id := ""
	u.eventually("version "+version+" in slot "+slot, func() (bool, any) {
		v, slots := u.waitAPI(u.t, ""), u.get(u.t, "SlotStatus")
		id = v.GetBootId()
		return v.GetSlot() == slot && slots[slot]["version"] == version && slots[slot]["running"] == "true", slots
	})
	return id
}

// eventually polls a fact until it is there.
func (u *upgradeTest) eventually(what string, fact func() (bool, any)) {
	u.t.Helper()
	var said any
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		ok, now := fact()
		if ok {
			return
		}
		said = now
	}
	u.t.Fatalf("waited for %s; the last that was seen is %v", what, said)
}

// commit installs a good version, which has to be kept, from slot to slot.
func (u *upgradeTest) commit(version, to string) {
	u.t.Helper()
	identity := u.serverFingerprint(u.t)
	out, ok := u.try("upgrade", u.bundle(version, "", nil))
	if !ok || !strings.Contains(out, "is kept") {
		u.t.Fatalf("the upgrade to %s was not kept: %s", version, out)
	}
	u.runs(to, version)
	if got := u.serverFingerprint(u.t); got != identity {
		u.t.Errorf("the node's certificate is %s; want %s", got, identity)
	}
	if b := u.get(u.t, "BootStatus")["boot"]; b["reason"] != "upgrade" || b["trial"] != "false" || b["problem"] != "" {
		u.t.Errorf("BootStatus = %v; want an upgrade that is kept", b)
	}
}

// again starts the machine anew on its disk, as after a power cut.
func (u *upgradeTest) again() {
	u.t.Helper()
	u.vm.Close()
	u.machine = start(u.t, u.node, u.edit)
	u.waitAPI(u.t, "")
	u.settled(u.t)
}

// rolledBack checks that an upgrade has failed and says why.
func (u *upgradeTest) rolledBack(slot, version, why string) {
	u.t.Helper()
	u.runs(slot, version)
	s := u.get(u.t, "UpgradeStatus")["upgrade"]
	if s["phase"] != "RolledBack" || !strings.Contains(s["message"], why) {
		u.t.Errorf("UpgradeStatus = %v; want RolledBack and %q", s, why)
	}
}

// upgradeBoards are those that upgrades are tested on.
func upgradeBoards(t *testing.T, run func(t *testing.T, b board.Board)) {
	for _, name := range []string{"rpi-3a-plus", "x86_64-uefi", "arm64-uefi"} {
		t.Run(name, func(t *testing.T) {
			b, _ := board.ByName(name)
			only(t, b)
			t.Parallel() // each machine is emulated by one thread
			run(t, b)
		})
	}
}

// TestUpgrade takes each board through an upgrade whose payload fails, and that is
// taken back, power cuts in the middle of others, and one that is kept.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	upgradeBoards(t, func(t *testing.T, b board.Board) {
		u := newUpgrade(t, b)
		v1 := u.node.Store.Index.Version
		identity := u.serverFingerprint(t)
		u.payloadFails("v2", "A", v1)
		for i := range 5 {
			u.cut(fmt.Sprintf("v3.%d", i), time.Duration(i)*900*time.Millisecond)
			u.runs("A", v1)
		}
		u.fetch("v4", "B")
		u.again() // a cold start
		u.runs("B", "v4")
		if got := u.serverFingerprint(t); got != identity {
			t.Errorf("the node's certificate is %s; want %s", got, identity)
		}
		u.ctl(t, "shutdown requested\n", "shutdown")
		u.waitOff(t)
		checkDisk(t, u.node)
	})
}

// peakMemory returns the most memory that machined had for itself while run ran, in
// KiB, and what it had before. Some 2 MB of it are the garbage that Go leaves lying.
func (u *upgradeTest) peakMemory(run func()) (before, peak uint64) {
	u.t.Helper()
	c, err := lab.Dial(u.vm, u.machine.bundle)
	if err != nil {
		u.t.Fatal(err)
	}
	defer c.Close()
	anon := func() (kb uint64) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if all, err := lab.Fields(ctx, c, "MemoryStatus"); err == nil {
			fmt.Sscan(all["memory"]["rss_anon_kb"], &kb)
		}
		return kb
	}
	before = anon()
	done := make(chan struct{})
	go func() {
		defer close(done)
		run()
	}()
	samples := 0
	for {
		select {
		case <-done:
			if before == 0 || samples < 3 {
				u.t.Errorf("the memory of machined was seen %d times, %d KiB at first", samples, before)
			}
			return before, peak
		case <-time.After(300 * time.Millisecond):
		}
		if kb := anon(); kb > 0 {
			samples++
			peak = max(peak, kb)
		}
	}
}

// payloadFails installs a version whose payload never gets healthy.
func (u *upgradeTest) payloadFails(version, slot, before string) {
	u.t.Helper()
	path := u.bundle(version, "payload=bad", nil)
	var out string
	var ok bool
	rest, peak := u.peakMemory(func() { out, ok = u.try("upgrade", path) })
	u.t.Logf("machined has %d KiB for itself, and %d at most during the upgrade", rest, peak)
	if peak > rest+(8<<10) {
		u.t.Errorf("the upgrade took %d KiB of memory; want 8 MiB at most, whatever its size", peak-rest)
	}
	if ok || !strings.Contains(out, "the critical service payload is not healthy") {
		u.t.Fatalf("an upgrade whose payload fails printed %q", out)
	}
	u.settled(u.t)
	u.rolledBack(slot, before, "the critical service payload is not healthy")
}

// fetch has the node fetch a good version, from a server that cuts each answer.
func (u *upgradeTest) fetch(version, to string) {
	u.t.Helper()
	path := u.bundle(version, "", nil)
	content, err := os.ReadFile(path)
	if err != nil {
		u.t.Fatal(err)
	}
	answers := 0
	a := newAgent(u.t)
	a.mux.HandleFunc("/bundle", func(w http.ResponseWriter, r *http.Request) {
		answers++
		http.ServeContent(&cutting{ResponseWriter: w, left: len(content)/2 + 1000}, r, "bundle", time.Unix(1, 0), bytes.NewReader(content))
	})
	out, ok := u.try("upgrade", a.url+"/bundle", hashOf(u.t, path))
	if !ok || !strings.Contains(out, "is kept") || answers < 2 {
		u.t.Fatalf("the upgrade to %s, fetched in %d pieces, was not kept: %s", version, answers, out)
	}
	u.runs(to, version)
}

// cutting breaks the connection after some bytes.
type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(b []byte) (int, error) {
	if len(b) > c.left {
		_, _ = c.ResponseWriter.Write(b[:c.left])
		panic(http.ErrAbortHandler)
	}
	c.left -= len(b)
	return c.ResponseWriter.Write(b)
}

// cut begins an upgrade and cuts the power after a while.
func (u *upgradeTest) cut(version string, after time.Duration) {
	u.t.Helper()
	path := u.bundle(version, "", nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = exec.CommandContext(ctx, *ctlFlag, "--bundle", u.machine.bundle, "--endpoint", lab.Endpoint(u.vm), "upgrade", "--no-wait", path).Run()
	}()
	u.eventually("begin of an upgrade", func() (bool, any) {
		all, err := u.list("UpgradeStatus")
		s := all["upgrade"]
		return err == nil && s["to_version"] == version, s
	})
	time.Sleep(after)
	u.vm.Kill()
	cancel()
	<-done
	u.again()
}
