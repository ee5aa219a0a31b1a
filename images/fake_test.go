package images_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"machined/board"
	"machined/images"
	"machined/images/parts"
)

const (
	fakeVersion   = "v1.2.3-4-gabcdef0"
	fakeBuildTime = 1_790_000_000
)

// fakeParts lists the parts of a store that has all that any board needs, each
// with its component.
func fakeParts() map[string]string {
	list := map[string]string{
		"kernel/amd64": "linux-amd64", "kernel/arm64": "linux-arm64", "kernel/rpi": "linux-rpi",
		"system/amd64": "machined-amd64", "system/arm64": "machined-arm64", "system/rpi": "machined-arm64",
		"small.ext4.gz":                         "state-template",
		"firmware/LICENCE.broadcom":             "raspberrypi-firmware",
		"licenses/raspberrypi-firmware/LICENSE": "raspberrypi-firmware",
	}
	for _, arch := range []string{"amd64", "arm64"} {
		list["machined/"+arch] = "machined-" + arch
		list["initramfs/"+arch] = "machined-" + arch
		list["loader/"+arch+".efi"] = "systemd-boot-" + arch
		list["licenses/machined-"+arch+"/LICENSES"] = "machined-" + arch
		list["licenses/systemd-boot-"+arch+"/copyright"] = "systemd-boot-" + arch
	}
	for _, kernel := range []string{"amd64", "arm64", "rpi"} {
		list["licenses/linux-"+kernel+"/LICENSE"] = "linux-" + kernel
		list["licenses/linux-"+kernel+"/LICENSE.linux"] = "linux-" + kernel
	}
	for _, f := range []string{"bootcode.bin", "start.elf", "fixup.dat", "start_cd.elf", "fixup_cd.dat"} {
		list["firmware/"+f] = "raspberrypi-firmware"
	}
	for _, f := range []string{
		"dtb/bcm2710-rpi-3-b-plus.dtb", "dtb/bcm2837-rpi-3-a-plus.dtb",
		"overlays/disable-bt.dtbo", "overlays/i2c-rtc.dtbo", "overlays/overlay_map.dtb",
	} {
		list[f] = "linux-rpi"
	}
	return list
}

// fakeStore makes a store of tiny files.
func fakeStore(t *testing.T) *parts.Store {
	t.Helper()
	dir := t.TempDir()
	index := parts.Index{Version: fakeVersion, BuildTime: fakeBuildTime}
	components := make(map[string]bool)
	for name, component := range fakeParts() {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Repeat(name+"\n", 100+len(name))), 0o644); err != nil {
			t.Fatal(err)
		}
		sum, size, err := parts.Hash(path)
		if err != nil {
			t.Fatal(err)
		}
		p := parts.Part{Name: name, Component: component, SHA256: sum, Size: size}
		if kind, _, _ := strings.Cut(name, "/"); kind == "system" || kind == "initramfs" {
			p.Holds = []string{"machined/" + strings.TrimPrefix(component, "machined-")}
			if kind == "system" {
				p.Holds = append(p.Holds, "small.ext4.gz")
			}
		}
		index.Parts = append(index.Parts, p)
		components[component] = true
	}
	for name := range components {
		c := parts.Component{Name: name, Version: "v0." + name, License: "MIT", Source: "example.org/" + name}
		if strings.HasPrefix(name, "machined-") {
			c.GoModules = []parts.GoModule{
				{Path: "example.org/one", Version: "v1.0.0+incompatible", License: "MIT"},
				{Path: "example.org/two", Version: "v0.2.0", License: "Apache-2.0 AND MIT"},
				{Path: "stdlib", Version: "go1.26.0", License: "BSD-3-Clause"},
			}
		}
		index.Components = append(index.Components, c)
	}
	index.Sort()
	b, err := json.Marshal(index)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, parts.IndexName), b, 0o644); err != nil {
		t.Fatal(err)
	}
	return openStore(t, dir)
}

func openStore(t *testing.T, dir string) *parts.Store {
	t.Helper()
	store, err := parts.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// age makes the store's files look as if they were from another day.
func age(t *testing.T, store *parts.Store) {
	t.Helper()
	for _, p := range store.Index.Parts {
		if err := os.Chtimes(store.Path(p.Name), time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
	}
}

// fakeOptions describe a node with a config and a PKI.
func fakeOptions(b board.Board, store *parts.Store) images.Options {
	return images.Options{
		Board: b, Store: store, Config: []byte("machine:\n  hostname: node-1\n"),
		PKI: map[string][]byte{"ca.crt": []byte("CA"), "node.crt": []byte("certificate"), "node.key": []byte("key")},
	}
}

// build builds an image in a directory of its own.
func build(t *testing.T, o images.Options) images.Image {
	t.Helper()
	img, err := images.Build(filepath.Join(t.TempDir(), "node.img"), o)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// forEachBoard runs a test for each board of the table.
func forEachBoard(t *testing.T, test func(t *testing.T, b board.Board)) {
	for _, b := range board.Table() {
		t.Run(b.Name, func(t *testing.T) { test(t, b) })
	}
}

func boardNamed(t *testing.T, name string) board.Board {
	t.Helper()
	b, ok := board.ByName(name)
	if !ok {
		t.Fatalf("there is no board %q", name)
	}
	return b
}

// outputs returns size and hash of the three files of an image.
func outputs(t *testing.T, path string) [3]string {
	t.Helper()
	var all [3]string
	for i, p := range []string{path, images.ManifestPath(path), images.SBOMPath(path)} {
		sum, size, err := parts.Hash(p)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = fmt.Sprint(size, " bytes, ", sum)
	}
	return all
}

// compareOutputs reports which of the three files differ.
func compareOutputs(t *testing.T, got, want [3]string) {
	t.Helper()
	for i, name := range []string{"image", "manifest", "bill of materials"} {
		if got[i] != want[i] {
			t.Errorf("the %s has %s; want %s", name, got[i], want[i])
		}
	}
}
