package images_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"machined/board"
	"machined/images"
	"machined/images/parts"
)

// TestManifest checks the image against its manifest, and the manifest's parts
// against the store.
func TestManifest(t *testing.T) {
	store := fakeStore(t)
	forEachBoard(t, func(t *testing.T, b board.Board) {
		img := build(t, fakeOptions(b, store))
		text, err := os.ReadFile(images.ManifestPath(img.Path))
		if err != nil {
			t.Fatal(err)
		}
		var m images.Manifest
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		sum, size, err := parts.Hash(img.Path)
		if err != nil {
			t.Fatal(err)
		}
		if m.Image != filepath.Base(img.Path) || m.SHA256 != sum || m.Size != size {
			t.Errorf("the manifest is for %s, %d bytes, %s; want %s, %d bytes, %s", m.Image, m.Size, m.SHA256, filepath.Base(img.Path), size, sum)
		}
		if m.Board != b.Name || m.Version != fakeVersion || m.BuildTime != fakeBuildTime {
			t.Errorf("the manifest is for %q, version %q, time %d", m.Board, m.Version, m.BuildTime)
		}
		if got, want := names(m.Parts), partsOf(b); !slices.Equal(got, want) {
			t.Errorf("the manifest has the parts %q; want %q", got, want)
		}
		for _, p := range m.Parts {
			if sum, size, err := parts.Hash(store.Path(p.Name)); err != nil || p.SHA256 != sum || p.Size != size {
				t.Errorf("part %s has %d bytes, %s; want %d bytes, %s, %v", p.Name, p.Size, p.SHA256, size, sum, err)
			}
		}
	})
}

// partsOf lists what an image of b is made of, in order.
func partsOf(b board.Board) []string {
	var list []string
	for name, component := range fakeParts() {
		kernel := b.Arch
		if b.Name == "rpi-3a-plus" {
			kernel = "rpi"
		}
		switch component {
		case "linux-" + kernel, "state-template":
			list = append(list, name)
		case "machined-" + b.Arch:
			if !strings.HasPrefix(name, "system/") || name == "system/"+kernel {
				list = append(list, name)
			}
		case "raspberrypi-firmware":
			if b.Firmware == board.RaspberryPi {
				list = append(list, name)
			}
		case "systemd-boot-" + b.Arch:
			if b.Firmware == board.UEFI {
				list = append(list, name)
			}
		}
	}
	slices.Sort(list)
	return list
}

func names(list []parts.Part) []string {
	var all []string
	for _, p := range list {
		all = append(all, p.Name)
	}
	return all
}

// TestSBOM decodes the bill of materials and looks for each part and each Go
// module of the image.
func TestSBOM(t *testing.T) {
	store := fakeStore(t)
	forEachBoard(t, func(t *testing.T, b board.Board) {
		img := build(t, fakeOptions(b, store))
		bom := readSBOM(t, images.SBOMPath(img.Path))
		if root := bom.Metadata.Component; root.Name != "machined-"+b.Name || root.Version != fakeVersion {
			t.Errorf("the bill of materials is for %s %s", root.Name, root.Version)
		}
		found := make(map[string]cdx.Component)
		for _, c := range *bom.Components {
			if want, ok := store.Component(c.Name); !ok || c.Version != want.Version || c.Description != want.Source {
				t.Errorf("the bill of materials has %s %s from %s; want %+v", c.Name, c.Version, c.Description, want)
			}
			collectComponents(t, c, found)
		}
		for _, p := range img.Manifest.Parts {
			hashes := found["file:"+p.Name].Hashes
			if hashes == nil || len(*hashes) != 1 || (*hashes)[0] != (cdx.Hash{Algorithm: cdx.HashAlgoSHA256, Value: p.SHA256}) {
				t.Errorf("the bill of materials has %s with the hashes %v; want %s", p.Name, hashes, p.SHA256)
			}
		}
		for ref, want := range map[string]string{
			"machined-" + b.Arch + ":example.org/one": "pkg:golang/example.org/one@v1.0.0%2Bincompatible",
			"machined-" + b.Arch + ":example.org/two": "pkg:golang/example.org/two@v0.2.0",
			"machined-" + b.Arch + ":stdlib":          "pkg:golang/stdlib@1.26.0",
		} {
			if got := found[ref]; got.PackageURL != want || got.Type != cdx.ComponentTypeLibrary {
				t.Errorf("the bill of materials has for %s %q; want %q", ref, got.PackageURL, want)
			}
		}
	})
}

func readSBOM(t *testing.T, path string) *cdx.BOM {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	bom := new(cdx.BOM)
	if err := cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatalf("the bill of materials is no CycloneDX: %v", err)
	}
	if bom.BOMFormat != cdx.BOMFormat || bom.SerialNumber != "" || bom.Metadata == nil || bom.Components == nil {
		t.Fatalf("the bill of materials is %+v; want CycloneDX without a serial number", bom)
	}
	return bom
}

// collectComponents gathers a component and those inside by their references,
// which are unique in a bill (CycloneDX 1.6), and looks at their licences.
func collectComponents(t *testing.T, c cdx.Component, found map[string]cdx.Component) {
	t.Helper()
	if _, twice := found[c.BOMRef]; twice || c.BOMRef == "" {
		t.Errorf("the reference %q of %s is not its own", c.BOMRef, c.Name)
	}
	found[c.BOMRef] = c
	licensed := c.Licenses != nil && len(*c.Licenses) == 1 && (*c.Licenses)[0].Expression != ""
	if licensed == (c.Type == cdx.ComponentTypeFile) {
		t.Errorf("%s has the licences %v; want one expression for a work, and none for its files", c.Name, c.Licenses)
	}
	if c.Components == nil {
		return
	}
	for _, inside := range *c.Components {
		collectComponents(t, inside, found)
	}
}
