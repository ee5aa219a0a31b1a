package main

import (
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"machined/api"
	"machined/hal/fake"
	"machined/hal/linux"
	"machined/init/upgrade"
	"machined/reconcile/resource"
)

// TestPinnedEntry reads the default that a user has set with the loader.
func TestPinnedEntry(t *testing.T) {
	variable := func(name string) []byte {
		b := []byte{7, 0, 0, 0} // attributes
		for _, c := range append(utf16.Encode([]rune(name)), 0) {
			b = binary.LittleEndian.AppendUint16(b, c)
		}
		return b
	}
	for _, c := range []struct {
		name    string
		content []byte // nil for no variable
		want    string
	}{
		{"none", nil, ""},
		{"an entry", variable("windows.conf"), "windows.conf"},
		{"empty", variable(""), ""},
		{"damaged", []byte{7, 0, 0}, "an entry that cannot be read"},
	} {
		r := newRig(t)
		if c.content != nil {
			path := filepath.Join(r.root, pinnedVariable)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, c.content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := r.pinnedEntry(); got != c.want {
			t.Errorf("%s: pinned is %q; want %q", c.name, got, c.want)
		}
	}
}

// TestKernelLoader loads a slot's kernel with its arguments and the mark of kexec,
// where the kernel and the board can.
func TestKernelLoader(t *testing.T) {
	r := newRig(t)
	r.boot.Board = "x86_64-uefi"
	if r.kernelLoader() != nil {
		t.Error("there is a loader without a kernel that can")
	}
	if err := os.MkdirAll(filepath.Join(r.root, "sys/kernel"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.root, "sys/kernel/kexec_loaded"), []byte("0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := &fake.BootFiles{}
	files.Put("B/cmdline.txt", []byte("console=x machined.slot=B\n"))
	r.bootFiles = files
	if err := r.kernelLoader()("B"); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(r.root, "boot/B")
	want := [3]string{dir + "/linux.efi", dir + "/initramfs.img", "console=x machined.slot=B " + kexecMark}
	if r.power.Loaded != want {
		t.Errorf("loaded %q; want %q", r.power.Loaded, want)
	}
	if err := r.kernelLoader()("A"); err == nil {
		t.Error("a slot without arguments was loaded")
	}
	r.boot.Board = "rpi-3a-plus"
	if r.kernelLoader() != nil {
		t.Error("there is a loader on a board whose firmware makes the device tree")
	}
}

// TestUpgradeIsTold: who asks for an upgrade by URL and then how it stands is not
// told how the one before has ended. Such an upgrade ends with the machine, though
// its server stays silent.
func TestUpgradeIsTold(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	r := newRig(t)
	r.jobs = linux.NewJobs(func() {})
	m := upgrade.New(upgrade.Drivers{
		Bootloader: &fake.Bootloader{}, Files: r.files, OnState: func(string) string { return "" }, Kick: func() {}, Say: r.say("upgrade"),
	}, upgrade.Facts{Board: "test", Slot: "A"})
	mustDo(t, m.Boot(""))
	r.upgrades.Manager = m
	mustDo(t, r.store.Upgrades.Put(r.by, resource.UpgradeStatus{Phase: string(upgrade.Failed)}))

	asked := make(chan error, 1)
	go func() { asked <- r.Upgrade("admin", silent.URL, strings.Repeat("00", 32), api.UpgradeOptions{}) }()
	for waiting := true; waiting; {
		r.followUpgrades(0) // the loop
		select {
		case err := <-asked:
			mustDo(t, err)
			waiting = false
		case <-time.After(time.Millisecond):
		}
	}
	status := r.list(resource.UpgradeStatusKind)[0].(resource.UpgradeStatus)
	if status.Phase != string(upgrade.Receiving) {
		t.Errorf("after the call the upgrade is %+v; want it receiving", status)
	}
	r.stopUpgrade()
	if m.Busy() {
		t.Errorf("the upgrade is under way %s after it was told to end", stopPatience)
	}
}
