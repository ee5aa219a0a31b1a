package boottest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"machined/tools/lab"
	"machined/tools/qemu"
)

const installConfig = "machine: {hostname: node-1, install: {disk: {bus: usb, size: \">= 128MiB\"}}}\n"

// TestInstallDisk is a node whose volumes are on a USB disk: it waits for it,
// leaves a foreign one alone and says why, makes its volumes on an empty one,
// and bears that it is pulled out.
func TestInstallDisk(t *testing.T) {
	t.Parallel()
	b := faulty(t)
	n := build(t, lab.Options{Board: b, Config: []byte(installConfig)})
	dir := t.TempDir()
	foreign, empty := filepath.Join(dir, "foreign"), filepath.Join(dir, "empty")
	for _, path := range []string{foreign, empty} {
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 512<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-L", "photos", foreign).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, out)
	}
	before := hashOf(t, foreign)

	m := start(t, n, func(o *qemu.Options) { o.USBDisk = foreign })
	m.waitAPI(t, "")
	m.waitConsole(t, "boot: Done")
	m.waitVolume(t, "STATE", "Waiting", "waiting for a disk that install.disk matches")
	plug(t, m.vm.PlugUSB)
	m.waitVolume(t, "STATE", "Refused", `/dev/sda is left alone: it holds ext4 "photos" (/dev/sda); set install.wipe: true to destroy that`)
	plug(t, m.vm.PullUSB)
	m.waitVolume(t, "STATE", "Waiting", "waiting for a disk that install.disk matches")
	m.ctl(t, "shutdown requested\n", "shutdown")
	m.waitOff(t)
	if hashOf(t, foreign) != before {
		t.Error("the foreign disk was written to")
	}

	m = start(t, n, func(o *qemu.Options) { o.USBDisk = empty })
	m.waitAPI(t, "")
	m.waitConsole(t, "boot: Done")
	plug(t, m.vm.PlugUSB)
	m.waitVolume(t, "EPHEMERAL", "Ready", "")
	identity := m.serverFingerprint(t)
	plug(t, m.vm.PullUSB)
	m.waitVolume(t, "STATE", "Waiting", "waiting for a disk that install.disk matches")
	plug(t, m.vm.PlugUSB)
	m.waitVolume(t, "EPHEMERAL", "Ready", "")
	m.waitVolume(t, "STATE", "Ready", "")
	if got := m.serverFingerprint(t); got != identity {
		t.Errorf("the node's certificate is %s; want %s, as before", got, identity)
	}
	m.ctl(t, "shutdown requested\n", "shutdown")
	m.waitOff(t)
	if out := tool(t, "sgdisk", "-v", empty); !strings.Contains(out, "No problems found") {
		t.Errorf("sgdisk -v says %s", out)
	}
	list := partitions(t, empty)
	if len(list) != 2 || len(partitions(t, n.Disk())) != 1 {
		t.Fatalf("the USB disk has %d partitions and the boot disk %d; want 2 and 1", len(list), len(partitions(t, n.Disk())))
	}
	for _, p := range list {
		tool(t, "e2fsck", "-fn", fmt.Sprintf("%s?offset=%d", empty, p.start))
	}
}

// TestDamagedState is a node whose STATE cannot be mounted: it says so, has its
// API and EPHEMERAL, and does not touch what may still be saved.
func TestDamagedState(t *testing.T) {
	t.Parallel()
	b := faulty(t)
	n := build(t, lab.Options{Board: b, Config: []byte(plainConfig)})
	m := start(t, n, nil)
	m.waitAPI(t, "")
	m.settled(t)
	m.ctl(t, "shutdown requested\n", "shutdown")
	m.waitOff(t)
	p := partitions(t, n.Disk())[statePlace]
	disk, err := os.OpenFile(n.Disk(), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	// The block group descriptors, behind a superblock that is whole.
	_, err = disk.WriteAt(bytes.Repeat([]byte{0xff}, 2048), p.start+2048)
	if err = errors.Join(err, disk.Close()); err != nil {
		t.Fatal(err)
	}
	before := filepath.Join(t.TempDir(), "before")
	copyRange(t, n.Disk(), before, p.start, p.size)

	m = start(t, n, nil)
	m.waitAPI(t, "")
	m.waitConsole(t, "boot: Done")
	var volumes map[string]map[string]string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if volumes = m.get(t, "VolumeStatus"); volumes["STATE"]["phase"] == "Failed" && volumes["EPHEMERAL"]["phase"] == "Ready" {
			break
		}
	}
	if s := volumes["STATE"]; s["phase"] != "Failed" || !strings.Contains(s["message"], "mount") || volumes["EPHEMERAL"]["phase"] != "Ready" {
		t.Errorf("VolumeStatus = %v; want STATE Failed, with the reason, and EPHEMERAL Ready", volumes)
	}
	m.ctl(t, "shutdown requested\n", "shutdown")
	m.waitOff(t)
	after := filepath.Join(t.TempDir(), "after")
	copyRange(t, n.Disk(), after, p.start, p.size)
	if hashOf(t, before) != hashOf(t, after) {
		t.Error("the damaged STATE was written to")
	}
}

func plug(t *testing.T, change func() error) {
	t.Helper()
	if err := change(); err != nil {
		t.Fatal(err)
	}
}

// waitVolume waits for a phase of a volume and its message.
func (m *machine) waitVolume(t *testing.T, name, phase, message string) {
	t.Helper()
	var last map[string]string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if last = m.get(t, "VolumeStatus")[name]; last["phase"] == phase && last["message"] == message {
			return
		}
	}
	t.Fatalf("VolumeStatus %s is %v; want it %s, %q", name, last, phase, message)
}

func hashOf(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
