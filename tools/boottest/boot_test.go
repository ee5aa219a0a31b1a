// Package boottest boots nodes in QEMU and judges them from outside: over
// their API, with the real machinectl, and by what is left on their disks.
package boottest

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"machined/api/machinepb"
	"machined/api/pki"
	"machined/board"
	"machined/reconcile/resource"
	"machined/tools/lab"
	"machined/tools/qemu"
)

var (
	boardFlag = flag.String("board", "", "test only this board")
	partsFlag = flag.String("parts", "../../build/parts", "directory that `make parts` filled")
	ctlFlag   = flag.String("machinectl", "../../build/machinectl", "machinectl program")
)

// patience is a time-out, not a budget: emulation on a busy machine is slow.
const patience = 4 * time.Minute

// plainConfig is for what does not need a container runtime, and is quicker
// without one.
const (
	nodeConfig  = "machine:\n  hostname: node-1\n"
	plainConfig = nodeConfig + "  runtime: {disabled: true}\n"
)

// TestBoot takes each board through its first life: cold boot, API, reboot
// through the API with the same identity, and shutdown.
func TestBoot(t *testing.T) {
	t.Parallel()
	for _, b := range board.Table() {
		t.Run(b.Name, func(t *testing.T) {
			only(t, b)
			t.Parallel() // each machine is emulated by one thread, or two
			n := build(t, lab.Options{Board: b, Config: []byte(nodeConfig)})
			m := start(t, n, nil)
			first := m.waitAPI(t, "")
			checkVersion(t, n, first)
			checkResources(t, m)
			checkKinds(t, m)
			checkProgram(t, m, first)
			identity := m.serverFingerprint(t)

			m.ctl(t, "reboot requested\n", "reboot")
			second := m.waitAPI(t, first.GetBootId())
			checkVersion(t, n, second)
			if got := m.serverFingerprint(t); got != identity {
				t.Errorf("after the reboot the node's certificate is %s; want %s", got, identity)
			}
			if b.Firmware == board.RaspberryPi && m.vm.Starts() != 2 {
				t.Errorf("the firmware chose %d times; want 2, once a boot", m.vm.Starts())
			}
			m.settled(t)
			if b.Name == "rpi-3a-plus" {
				checkBudgets(t, m)
			}
			m.ctl(t, "shutdown requested\n", "shutdown")
			m.waitOff(t)
			checkDisk(t, n)
			checkConsole(t, m)
		})
	}
}

// machine is a running node of a test.
type machine struct {
	node    *lab.Node
	vm      *qemu.VM
	bundle  string
	console *os.File
}

func only(t *testing.T, b board.Board) {
	t.Helper()
	if *boardFlag != "" && *boardFlag != b.Name {
		t.Skipf("-board=%s asks for another board", *boardFlag)
	}
}

func build(t *testing.T, o lab.Options) *lab.Node {
	t.Helper()
	o.Parts, o.Dir = *partsFlag, t.TempDir()
	n, err := lab.Build(o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// start boots n; when the test fails, its console is printed.
func start(t *testing.T, n *lab.Node, edit func(*qemu.Options)) *machine {
	t.Helper()
	console, err := os.CreateTemp(t.TempDir(), "console")
	if err != nil {
		t.Fatal(err)
	}
	vm, err := n.Start(console, edit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		vm.Close()
		if t.Failed() {
			text, _ := os.ReadFile(console.Name())
			t.Logf("console:\n%s", text)
		}
		console.Close()
	})
	return &machine{node: n, vm: vm, bundle: n.Bundle, console: console}
}

func (m *machine) waitAPI(t *testing.T, last string) *machinepb.VersionResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	v, err := lab.WaitAPI(ctx, m.vm, m.bundle, last)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (m *machine) waitOff(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := m.vm.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

// printed is what the console has shown so far.
func (m *machine) printed() string {
	b, err := os.ReadFile(m.console.Name())
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// waitConsole waits until the console has shown text.
func (m *machine) waitConsole(t *testing.T, text string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		if strings.Contains(m.printed(), text) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("the console does not show %q", text)
}

// settled waits until the slot's program has taken over from the initramfs's
// in the boot that the console shows last, and both volumes are in use.
func (m *machine) settled(t *testing.T) {
	t.Helper()
	const began, ended = "boot: Slot", "boot: Done"
	deadline := time.Now().Add(patience)
	last := ""
	for time.Now().Before(deadline) {
		b, err := os.ReadFile(m.console.Name())
		if text := string(b); err == nil && strings.LastIndex(text, ended) > strings.LastIndex(text, began) {
			volumes := m.get(t, "VolumeStatus")
			if volumes["STATE"]["phase"] == "Ready" && volumes["EPHEMERAL"]["phase"] == "Ready" {
				return
			}
			last = fmt.Sprint(volumes)
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("the console does not show %q after the last %q, or the volumes are not ready: %s", ended, began, last)
}

// ctl runs machinectl against the node and compares its output; "" is any.
func (m *machine) ctl(t *testing.T, want string, args ...string) string {
	t.Helper()
	cmd := exec.Command(*ctlFlag, append([]string{"--bundle", m.bundle, "--endpoint", lab.Endpoint(m.vm)}, args...)...)
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		t.Fatalf("machinectl %s: %v\n%s", strings.Join(args, " "), err, failed.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	if want != "" && string(out) != want {
		t.Errorf("machinectl %s printed %q; want %q", strings.Join(args, " "), out, want)
	}
	return string(out)
}

// get lists a kind: id → field → value.
func (m *machine) get(t *testing.T, kind string) map[string]map[string]string {
	t.Helper()
	all, err := m.list(kind)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (m *machine) list(kind string) (map[string]map[string]string, error) {
	c, err := lab.Dial(m.vm, m.bundle)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return lab.Fields(context.Background(), c, kind)
}

// serverFingerprint returns the fingerprint of the certificate that the node
// shows.
func (m *machine) serverFingerprint(t *testing.T) string {
	t.Helper()
	bundle, err := pki.LoadBundle(m.bundle)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(lab.Endpoint(m.vm), "https://"), pki.ClientTLS(bundle, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return pki.Fingerprint(conn.ConnectionState().PeerCertificates[0])
}

func checkVersion(t *testing.T, n *lab.Node, v *machinepb.VersionResponse) {
	t.Helper()
	image := ""
	for _, f := range n.Image.Manifest.Slot.Files {
		if f.Path == "system.squashfs" {
			image = f.SHA256
		}
	}
	for _, c := range []struct{ what, got, want string }{
		{"version", v.GetVersion(), n.Store.Index.Version},
		{"image_id", v.GetImageId(), image},
		{"board", v.GetBoard(), n.Board.Name},
		{"slot", v.GetSlot(), "A"},
	} {
		if c.got != c.want || c.want == "" {
			t.Errorf("Version().%s = %q; want %q", c.what, c.got, c.want)
		}
	}
}

func checkResources(t *testing.T, m *machine) {
	t.Helper()
	if api := m.get(t, "ServiceStatus")["api"]; api["state"] != "Running" || api["healthy"] != "true" {
		t.Errorf("ServiceStatus api = %v; want Running and healthy", api)
	}
	if c := m.get(t, "MachineConfig")["machine-config"]; c["bytes"] != nodeConfig || c["source"] != "/boot/machined/config.yaml" {
		t.Errorf("MachineConfig = %v; want the file on the boot partition", c)
	}
	link := "eth0"
	disk := "/dev/vda1"
	if m.node.Board.Name == "rpi-3a-plus" {
		link, disk = "usb0", "/dev/mmcblk0p1"
	}
	if l := m.get(t, "LinkStatus")[link]; l["up"] != "true" || l["mtu"] != "1500" {
		t.Errorf("LinkStatus %s = %v; want it up with MTU 1500", link, l)
	}
	if a := m.get(t, "AddressStatus"); a[link+"/10.0.2.15/24"] == nil {
		t.Errorf("AddressStatus = %v; want 10.0.2.15/24 on %s", a, link)
	}
	if boot := m.get(t, "MountStatus")["/boot"]; boot["source"] != disk || boot["fstype"] != "vfat" {
		t.Errorf("MountStatus /boot = %v; want %s as vfat", boot, disk)
	}
}

// checkKinds lists every kind there is, and looks into those that a node which
// has just booted has something of.
func checkKinds(t *testing.T, m *machine) {
	t.Helper()
	m.settled(t)
	// The slots are looked at once STATE is there, beside everything else.
	for deadline := time.Now().Add(patience); len(m.get(t, "SlotStatus")) < 2; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the node does not tell of its slots")
		}
	}
	disk := "/dev/vda"
	if m.node.Board.Name == "rpi-3a-plus" {
		disk = "/dev/mmcblk0"
	}
	for _, k := range resource.Kinds() {
		entries := m.get(t, k.String())
		t.Logf("%s: %d", k, len(entries))
		switch k {
		case resource.RuntimeStatusKind, resource.PodStatusKind, resource.UpgradeStatusKind, resource.InstallStatusKind:
			continue // nothing of the kind runs
		case resource.DiskStatusKind:
			if d := entries[strings.TrimPrefix(disk, "/dev/")]; d["path"] != disk || d["size_bytes"] == "0" {
				t.Errorf("DiskStatus = %v; want %s", entries, disk)
			}
		case resource.DiscoveredVolumeKind:
			if len(entries) != allPlaces {
				t.Errorf("DiscoveredVolume = %v; want the boot partition, STATE and EPHEMERAL", entries)
			}
		case resource.MountStatusKind:
			for target, volume := range map[string]string{"/": "SYSTEM", "/boot": "BOOT", "/system/state": "STATE", "/var": "EPHEMERAL"} {
				if mnt := entries[target]; mnt["volume"] != volume || mnt["mounted"] != "true" {
					t.Errorf("MountStatus %s = %v; want %s mounted", target, mnt, volume)
				}
			}
		}
		if len(entries) == 0 {
			t.Errorf("the node has no %s; want one or more", k)
		}
	}
	for id, c := range m.get(t, "ControllerStatus") {
		// The lab's network has no time servers.
		if c["last_error"] != "" {
			t.Errorf("ControllerStatus %s = %v; want no error", id, c)
		}
	}
}

// checkProgram runs the real machinectl for what a person would ask first.
func checkProgram(t *testing.T, m *machine, v *machinepb.VersionResponse) {
	t.Helper()
	if out := m.ctl(t, "", "version"); !strings.Contains(out, v.GetVersion()) || !strings.Contains(out, m.node.Board.Name) {
		t.Errorf("machinectl version printed %q; want the node's version %s and board", out, v.GetVersion())
	}
	if out := m.ctl(t, "", "get", "ServiceStatus"); !strings.Contains(out, "service_id=api state=Running healthy=true") {
		t.Errorf("machinectl get ServiceStatus printed %q; want the API running", out)
	}
}

// checkConsole looks for what a boot without faults does not print. On the
// second boot STATE was once not mounted before the slot's program ran, since
// the initramfs lacked its mount point.
func checkConsole(t *testing.T, m *machine) {
	t.Helper()
	console, err := os.ReadFile(m.console.Name())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(console)) {
		for _, fault := range []string{"] state: ", "] identity: ", "] mounts: ", "] cgroups: ", "] emergency: ", "panic"} {
			if strings.Contains(line, fault) {
				t.Errorf("the console shows %q; want no fault", line)
			}
		}
	}
}

// checkDisk has the real checkers judge what the node left on its disk.
func checkDisk(t *testing.T, n *lab.Node) {
	t.Helper()
	list := partitions(t, n.Disk())
	if len(list) != allPlaces {
		t.Errorf("the disk has %d partitions; want the boot partition, STATE and EPHEMERAL", len(list))
	}
	boot := filepath.Join(t.TempDir(), "boot")
	copyRange(t, n.Disk(), boot, list[bootPlace].start, list[bootPlace].size)
	tool(t, "fsck.fat", "-n", boot)
	for _, place := range []int{statePlace, ephemeralPlace} {
		tool(t, "e2fsck", "-fn", volume(t, n.Disk(), place))
	}
}
