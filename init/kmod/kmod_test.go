package kmod

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

// rig is a machine with some modules and devices.
type rig struct {
	Loader
	modules, devices fstest.MapFS
	inserted         []string
	refuse           map[string]error
	onInsert         func(file string)
	reports          []string
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func newRig() *rig {
	r := &rig{refuse: map[string]error{}, onInsert: func(string) {}}
	r.modules = fstest.MapFS{
		"modules.alias": file(`# Aliases extracted from modules themselves.
alias sdio:c*v02D0dA9A6* brcmfmac
alias usb:v0B95p7720d*dc*dsc*dp*ic*isc*ip*in* asix
alias usb:v*p*d*dc*dsc*dp*ic03isc*ip*in* usb-storage
alias platform:hub hub
alias platform:lost lost
alias of:N*T*Cvendor,both both_a
alias of:N*T*Cvendor,both both_b
alias crypto-cmac cmac
`),
		"modules.dep": file(`kernel/net/brcmfmac.ko: kernel/net/cfg80211.ko kernel/net/brcmutil.ko kernel/net/rfkill.ko
kernel/net/cfg80211.ko: kernel/net/rfkill.ko
kernel/net/brcmutil.ko:
kernel/net/rfkill.ko:
kernel/net/asix.ko.zst: kernel/net/rfkill.ko
kernel/usb/usb-storage.ko:
kernel/hub.ko:
kernel/both_a.ko:
kernel/both_b.ko:
kernel/crypto/cmac.ko:
`),
	}
	r.devices = fstest.MapFS{"system/cpu/modalias": file("cpu:type:x86\n"), "platform/uevent": file("MODALIAS=platform:hub\n")}
	r.Loader = Loader{Modules: r.modules, Devices: r.devices, Insert: r.insert, Report: r.report}
	return r
}

func (r *rig) insert(f string) error {
	if err := r.refuse[f]; err != nil {
		return err
	}
	r.inserted = append(r.inserted, f)
	r.onInsert(f)
	return nil
}

func (r *rig) report(format string, args ...any) {
	r.reports = append(r.reports, fmt.Sprintf(format, args...))
}

const (
	wifi    = "sdio:c00v02D0dA9A6\n"
	adapter = "usb:v0B95p7720d0001dc00dsc00dp00ic00isc00ip00in00\n"
	stick   = "usb:v1234p5678d0001dc00dsc00dp00ic03isc00ip00in00\n"
)

func TestLoad(t *testing.T) {
	for _, c := range []struct {
		name     string
		devices  map[string]string
		refuse   map[string]error
		inserted []string
		reports  []string
	}{
		{name: "nothing to load"},
		{
			name:     "dependencies first",
			devices:  map[string]string{"soc/mmc1/modalias": wifi},
			inserted: []string{"kernel/net/rfkill.ko", "kernel/net/brcmutil.ko", "kernel/net/cfg80211.ko", "kernel/net/brcmfmac.ko"},
			reports:  []string{"Loaded brcmfmac, brcmutil, cfg80211, rfkill."},
		},
		{
			name:     "two devices of one kind, and a dependency in common",
			devices:  map[string]string{"a/modalias": adapter, "b/modalias": adapter, "c/modalias": wifi},
			inserted: []string{"kernel/net/rfkill.ko", "kernel/net/asix.ko.zst", "kernel/net/brcmutil.ko", "kernel/net/cfg80211.ko", "kernel/net/brcmfmac.ko"},
			reports:  []string{"Loaded asix, brcmfmac, brcmutil, cfg80211, rfkill."},
		},
		{
			name:     "all modules that claim a device",
			devices:  map[string]string{"a/modalias": "of:NxT(null)Cvendor,both"},
			inserted: []string{"kernel/both_a.ko", "kernel/both_b.ko"},
			reports:  []string{"Loaded both_a, both_b."},
		},
		{
			name:     "a module that fails",
			devices:  map[string]string{"a/modalias": stick, "b/modalias": "platform:hub"},
			refuse:   map[string]error{"kernel/usb/usb-storage.ko": unix.ENOEXEC},
			inserted: []string{"kernel/hub.ko"},
			reports:  []string{"load module usb_storage: exec format error.", "Loaded hub."},
		},
		{
			name:     "a dependency that fails",
			devices:  map[string]string{"a/modalias": wifi, "b/modalias": wifi},
			refuse:   map[string]error{"kernel/net/brcmutil.ko": fs.ErrNotExist},
			inserted: []string{"kernel/net/rfkill.ko"},
			reports:  []string{"load module brcmutil, which brcmfmac needs: file does not exist.", "Loaded rfkill."},
		},
		{
			name:    "an alias of a module that is not there",
			devices: map[string]string{"a/modalias": "platform:lost"},
			reports: []string{"load module lost: modules.dep does not list it."},
		},
		{
			name:     "an empty alias, and one that is a directory",
			devices:  map[string]string{"a/modalias": "\n", "b/modalias/modalias": "platform:hub\n"},
			inserted: []string{"kernel/hub.ko"},
			reports:  []string{"Loaded hub."},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig()
			for name, text := range c.devices {
				r.devices[name] = file(text)
			}
			r.refuse = c.refuse
			if err := r.Run(); err != nil {
				t.Fatalf("Run() = %v; want success", err)
			}
			if !slices.Equal(r.inserted, c.inserted) {
				t.Errorf("inserted %q; want %q", r.inserted, c.inserted)
			}
			if !slices.Equal(r.reports, c.reports) {
				t.Errorf("reported %q; want %q", r.reports, c.reports)
			}
		})
	}
}

// TestDevicesBehindDevices tells of a USB adapter behind a hub whose driver was
// a module: it appeared only once the hub's module was in.
func TestDevicesBehindDevices(t *testing.T) {
	r := newRig()
	r.devices["hub/modalias"] = file("platform:hub")
	r.onInsert = func(f string) {
		if f == "kernel/hub.ko" {
			r.devices["hub/1-1/modalias"] = file(adapter)
		}
	}
	if err := r.Run(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"kernel/hub.ko", "kernel/net/rfkill.ko", "kernel/net/asix.ko.zst"}; !slices.Equal(r.inserted, want) {
		t.Errorf("inserted %q; want %q", r.inserted, want)
	}
}

// TestEndlessDevices checks that modules which bring ever new devices do not
// keep the loader for good.
func TestEndlessDevices(t *testing.T) {
	r := newRig()
	dep, aliases := "", ""
	for i := range 20 {
		dep += fmt.Sprintf("m%d.ko:\n", i)
		aliases += fmt.Sprintf("alias next:%d m%d\n", i, i)
	}
	r.modules["modules.dep"], r.modules["modules.alias"] = file(dep), file(aliases)
	r.devices["0/modalias"] = file("next:0")
	r.onInsert = func(string) {
		n := len(r.inserted)
		r.devices[fmt.Sprint(n, "/modalias")] = file(fmt.Sprint("next:", n))
	}
	if err := r.Run(); err != nil {
		t.Fatal(err)
	}
	if len(r.inserted) != maxPasses {
		t.Errorf("%d modules were loaded; want %d, one a pass", len(r.inserted), maxPasses)
	}
}

func TestWithoutModules(t *testing.T) {
	for name, modules := range map[string]fs.FS{"no directory": fstest.MapFS{}, "no aliases": fstest.MapFS{"modules.dep": file("")}} {
		r := newRig()
		r.Modules = modules
		r.devices["a/modalias"] = file(wifi)
		if err := r.Run(); err != nil || len(r.inserted)+len(r.reports) != 0 {
			t.Errorf("Run() with %s = %v, inserted %q, reported %q; want nothing", name, err, r.inserted, r.reports)
		}
	}
	r := newRig()
	r.Devices = broken{}
	if err := r.Run(); !errors.Is(err, unix.EIO) {
		t.Errorf("Run() without devices = %v; want %v", err, unix.EIO)
	}
}

// broken is a file system that cannot be read.
type broken struct{}

func (broken) Open(string) (fs.File, error) { return nil, unix.EIO }

func TestInsertNamesTheFile(t *testing.T) {
	if err := Insert(t.TempDir() + "/absent.ko"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Insert(absent) = %v; want %v", err, fs.ErrNotExist)
	}
}
