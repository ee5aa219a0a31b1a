package boottest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"machined/board"
	"machined/tools/lab"
	"machined/tools/qemu"
)

// faultBoard boots fastest, and has the Pi's layout and the UEFI boards'
// watchdog; what is tested here does not differ between boards.
const faultBoard = "arm64-mbr"

func faulty(t *testing.T) board.Board {
	t.Helper()
	b, ok := board.ByName(faultBoard)
	if !ok {
		t.Fatalf("the table of boards lacks %s", faultBoard)
	}
	only(t, b)
	return b
}

// TestOwnCA is the life of a node that was flashed without a PKI: it makes its
// own CA, its owner takes the bundle from the card, and after its first use
// the bundle is off the card, while the CA stays.
func TestOwnCA(t *testing.T) {
	t.Parallel()
	for _, name := range []string{faultBoard, "x86_64-uefi"} {
		t.Run(name, func(t *testing.T) {
			b, _ := board.ByName(name)
			only(t, b)
			n := build(t, lab.Options{Board: b, OwnCA: true, Config: []byte(plainConfig)})

			m := start(t, n, nil)
			m.waitConsole(t, "This node made its own CA")
			m.waitConsole(t, "volumes: EPHEMERAL is Ready")
			// Without a bundle there is only the power button.
			if err := m.vm.PowerButton(); err != nil {
				t.Fatal(err)
			}
			m.waitOff(t)
			bundle := filepath.Join(t.TempDir(), "bundle")
			takeBundle(t, n, bundle)

			m = start(t, n, nil)
			m.bundle = bundle
			first := m.waitAPI(t, "")
			identity := m.serverFingerprint(t)
			m.waitConsole(t, "The client bundle was used and is off the card.")
			m.ctl(t, "reboot requested\n", "reboot")
			m.waitAPI(t, first.GetBootId())
			if got := m.serverFingerprint(t); got != identity {
				t.Errorf("after a reboot the node's certificate is %s; want %s", got, identity)
			}
			m.settled(t)
			m.ctl(t, "shutdown requested\n", "shutdown")
			m.waitOff(t)
			if names := tool(t, "mdir", "-b", "-i", bootVolume(t, n.Disk()), "::machined"); strings.Contains(names, "bundle") {
				t.Errorf("the card still holds %s; want no bundle", names)
			}
			checkDisk(t, n)
		})
	}
}

// takeBundle copies the bundle from the card, as its owner would.
func takeBundle(t *testing.T, n *lab.Node, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"ca.crt", "client.crt", "client.key"} {
		tool(t, "mcopy", "-i", bootVolume(t, n.Disk()), "::machined/bundle/"+f, filepath.Join(dir, f))
	}
	if err := os.Chmod(filepath.Join(dir, "client.key"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestLateCard plugs the card in ten seconds after the kernel has started.
func TestLateCard(t *testing.T) {
	t.Parallel()
	n := build(t, lab.Options{Board: faulty(t), Config: []byte(plainConfig)})
	m := start(t, n, func(o *qemu.Options) { o.LateDisk = true })
	m.waitConsole(t, "Waiting for the boot partition")
	time.Sleep(10 * time.Second)
	if err := m.vm.InsertDisk(); err != nil {
		t.Fatal(err)
	}
	checkVersion(t, n, m.waitAPI(t, ""))
	if boot := m.get(t, "MountStatus")["/boot"]; boot["source"] != "/dev/sda1" {
		t.Errorf("MountStatus /boot = %v; want /dev/sda1", boot)
	}
}

// TestWatchdog has the kernel panic and hang: only the hardware's watchdog,
// which machined has armed, can bring the node back.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	n := build(t, lab.Options{Board: faulty(t), Config: []byte(plainConfig)})
	m := start(t, n, func(o *qemu.Options) { o.Append = "panic=0" })
	first := m.waitAPI(t, "")
	m.settled(t)
	if err := m.vm.Crash(); err != nil {
		t.Fatal(err)
	}
	second := m.waitAPI(t, first.GetBootId())
	checkVersion(t, n, second)
	if m.vm.Starts() != 2 {
		t.Errorf("the machine was started %d times; want 2", m.vm.Starts())
	}
}

// TestInvalidConfig breaks the config on the card: the node runs by the next
// source and says which file is wrong, where, and why.
func TestInvalidConfig(t *testing.T) {
	t.Parallel()
	n := build(t, lab.Options{Board: faulty(t), Config: []byte("machine:\n  hostnam: node-1\n")})
	m := start(t, n, nil)
	m.waitAPI(t, "")
	c := m.get(t, "MachineConfig")["machine-config"]
	if c["source"] != "built-in default" {
		t.Errorf("the config's source is %q; want the built-in default", c["source"])
	}
	for _, want := range []string{"/boot/machined/config.yaml:2:3", "hostnam"} {
		if !strings.Contains(c["rejected"], want) {
			t.Errorf("MachineConfig.rejected = %q; want it to contain %q", c["rejected"], want)
		}
	}
	m.waitConsole(t, "/boot/machined/config.yaml:2:3")
}

// TestDamagedSystem wipes out the system image of the slot: the node answers
// from its initramfs and says what is wrong.
func TestDamagedSystem(t *testing.T) {
	t.Parallel()
	n := build(t, lab.Options{Board: faulty(t), Config: []byte(plainConfig)})
	rubbish := filepath.Join(t.TempDir(), "rubbish")
	if err := os.WriteFile(rubbish, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	const bootAt = "@@1048576"
	tool(t, "mcopy", "-o", "-i", n.Image.Path+bootAt, rubbish, "::A/system.squashfs")
	m := start(t, n, nil)
	m.waitAPI(t, "")
	m.waitConsole(t, "Going on from the initramfs")
	system := m.get(t, "ServiceStatus")["system"]
	if system["state"] != "Failed" || !strings.Contains(system["message"], "squashfs") {
		t.Errorf("ServiceStatus system = %v; want Failed, and the squashfs named", system)
	}
}

// TestPowerCut cuts the power of a node at rest, with data in both volumes: it
// comes back with the same identity, the same file systems and the data, and
// its disk is repairable.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"rpi-3a-plus", "x86_64-uefi"} {
		t.Run(name, func(t *testing.T) {
			b, _ := board.ByName(name)
			only(t, b)
			t.Parallel()
			n := build(t, lab.Options{Board: b, Config: []byte(plainConfig)})
			m := start(t, n, nil)
			m.waitAPI(t, "")
			m.settled(t)
			identity := m.serverFingerprint(t)
			m.ctl(t, "shutdown requested\n", "shutdown")
			m.waitOff(t)
			state, ephemeral := uuid(t, volume(t, n.Disk(), statePlace)), uuid(t, volume(t, n.Disk(), ephemeralPlace))
			data := bytes.Repeat([]byte("what a service wrote\n"), 10000)
			plant(t, n.Disk(), statePlace, "planted", data)
			plant(t, n.Disk(), ephemeralPlace, "planted", data)
			for range 2 { // the second finds what the first left
				m = start(t, n, nil)
				m.waitAPI(t, "")
				m.settled(t)
				if got := m.serverFingerprint(t); got != identity {
					t.Errorf("the node's certificate is %s; want %s", got, identity)
				}
				m.vm.Close()
			}
			for place, want := range map[int]string{statePlace: state, ephemeralPlace: ephemeral} {
				fs := repaired(t, n.Disk(), place)
				if got := uuid(t, fs); got != want {
					t.Errorf("the file system of partition %d has the UUID %s; want %s, the one of before", place+1, got, want)
				}
				harvest(t, fs, "planted", data)
			}
		})
	}
}

// TestCutWhileProvisioning cuts the power while the volumes are made, later
// each time, until a boot gets through. The next finishes what was begun.
func TestCutWhileProvisioning(t *testing.T) {
	t.Parallel()
	b := faulty(t)
	n := build(t, lab.Options{Board: b, Config: []byte(plainConfig)})
	for _, delay := range []time.Duration{0, 50 * time.Millisecond, 150 * time.Millisecond, 400 * time.Millisecond} {
		m := start(t, n, nil)
		m.waitConsole(t, "boot: Done")
		time.Sleep(delay)
		m.vm.Close()
		t.Logf("cut %v after the start of the slot's program: %d partitions", delay, len(partitions(t, n.Disk())))
	}
	m := start(t, n, nil)
	m.waitAPI(t, "")
	m.settled(t)
	m.ctl(t, "shutdown requested\n", "shutdown")
	m.waitOff(t)
	checkDisk(t, n)
}

// TestAtRest counts how often a node with nothing to do wakes up: each time
// costs a small board energy.
func TestAtRest(t *testing.T) {
	b := faulty(t)
	n := build(t, lab.Options{Board: b, Config: []byte(plainConfig + "  time: {disabled: true}\n")})
	m := start(t, n, nil)
	m.waitAPI(t, "")
	m.settled(t)
	time.Sleep(10 * time.Second) // for what the boot began
	c, err := lab.Dial(m.vm, m.bundle)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// Over one connection: a handshake is work, and wakes the Go runtime's own
	// monitor thread all the time that it takes.
	count := func() int {
		entries, err := c.List(context.Background(), "MemoryStatus", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range entries[0].GetFields() {
			if f.GetKey() == "wake_ups" {
				wakeUps, err := strconv.Atoi(f.GetValue())
				if err != nil {
					t.Fatal(err)
				}
				return wakeUps
			}
		}
		t.Fatal("MemoryStatus has no wake_ups")
		return 0
	}
	count()
	// The budget is 4 a second. Under emulation each stretch of work is so long
	// that the Go runtime's monitor thread wakes up during it, on a busy machine
	// more often; what is to be seen here is a timer or a poll that should not be.
	const most, seconds = 8, 60
	before := count()
	time.Sleep(seconds * time.Second)
	got := count() - before
	t.Logf("%d wake-ups in %d s", got, seconds)
	if got > most*seconds {
		t.Errorf("%d wake-ups in %d s; want %d a second at most", got, seconds, most)
	}
}

// TestSlotB points the firmware at the other slot, which is whole from the
// start: on the Pi's layout by the one byte of config.txt, with UEFI by the
// loader's default.
func TestSlotB(t *testing.T) {
	t.Parallel()
	for name, flip := range map[string]struct{ file, from, to string }{
		faultBoard:    {"config.txt", "os_prefix=A/", "os_prefix=B/"},
		"x86_64-uefi": {"loader/loader.conf", "machined-*", "machined-b.conf"},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := board.ByName(name)
			only(t, b)
			t.Parallel()
			n := build(t, lab.Options{Board: b, Config: []byte(plainConfig)})
			const bootAt = "@@1048576"
			edited := filepath.Join(t.TempDir(), "edited")
			tool(t, "mcopy", "-i", n.Image.Path+bootAt, "::"+flip.file, edited)
			text, err := os.ReadFile(edited)
			if err != nil {
				t.Fatal(err)
			}
			flipped := strings.Replace(string(text), flip.from, flip.to, 1)
			if flipped == string(text) {
				t.Fatalf("%s holds no %q:\n%s", flip.file, flip.from, text)
			}
			if err := os.WriteFile(edited, []byte(flipped), 0o600); err != nil {
				t.Fatal(err)
			}
			tool(t, "mcopy", "-o", "-i", n.Image.Path+bootAt, edited, "::"+flip.file)
			if v := start(t, n, nil).waitAPI(t, ""); v.GetSlot() != "B" {
				t.Errorf("Version().slot = %q; want B", v.GetSlot())
			}
		})
	}
}

// TestEndAtOnce asks for endings with the first call that is answered, when the
// node is about to hand over to the slot's program: none may be lost.
func TestEndAtOnce(t *testing.T) {
	t.Parallel()
	n := build(t, lab.Options{Board: faulty(t), Config: []byte(plainConfig)})
	m := start(t, n, nil)
	first := m.waitAPI(t, "")
	m.ctl(t, "reboot requested\n", "reboot")
	m.waitAPI(t, first.GetBootId())
	m.ctl(t, "shutdown requested\n", "shutdown")
	m.waitOff(t)
}
