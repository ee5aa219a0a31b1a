package board

import (
	"strings"
	"testing"
)

// tree makes /proc/device-tree/compatible.
func tree(compatible ...string) []byte {
	return []byte(strings.Join(compatible, "\x00") + "\x00")
}

func TestDetect(t *testing.T) {
	for _, c := range []struct {
		name  string
		facts Facts
		want  string // none when empty
	}{
		{"Raspberry Pi 3 A+", Facts{Arch: "arm64", Compatible: tree("raspberrypi,3-model-a-plus", "brcm,bcm2837")}, "rpi-3a-plus"},
		{"the same through UEFI", Facts{Arch: "arm64", Compatible: tree("raspberrypi,3-model-a-plus", "brcm,bcm2837"), EFI: true}, "arm64-uefi"},
		{"another Raspberry Pi", Facts{Arch: "arm64", Compatible: tree("raspberrypi,4-model-b", "brcm,bcm2711")}, ""},
		{"a board whose name begins the same", Facts{Arch: "arm64", Compatible: tree("raspberrypi,3-model-a-plus-2")}, ""},
		{"QEMU virt without UEFI", Facts{Arch: "arm64", Compatible: tree("linux,dummy-virt")}, "arm64-mbr"},
		{"QEMU virt with UEFI", Facts{Arch: "arm64", Compatible: tree("linux,dummy-virt"), EFI: true}, "arm64-uefi"},
		{"arm64 server, ACPI", Facts{Arch: "arm64", EFI: true}, "arm64-uefi"},
		{"PC", Facts{Arch: "amd64", EFI: true}, "x86_64-uefi"},
		{"PC with BIOS", Facts{Arch: "amd64"}, ""},
		{"arm64 without anything", Facts{Arch: "arm64"}, ""},
		{"32-bit kernel on a Raspberry Pi", Facts{Arch: "arm", Compatible: tree("raspberrypi,3-model-a-plus")}, ""},
		{"not the first string", Facts{Arch: "arm64", Compatible: tree("vendor,carrier", "raspberrypi,3-model-a-plus")}, "rpi-3a-plus"},
		{"string without its zero", Facts{Arch: "arm64", Compatible: []byte("linux,dummy-virt")}, ""},
		{"nothing", Facts{}, ""},
	} {
		got, ok := Detect(c.facts)
		if got.Name != c.want || ok != (c.want != "") {
			t.Errorf("Detect(%s) = %q, %v; want %q", c.name, got.Name, ok, c.want)
		}
	}
}

func TestTable(t *testing.T) {
	seen := make(map[string]bool)
	for _, b := range Table() {
		if b.Name == "" || seen[b.Name] {
			t.Errorf("board %q has no name of its own", b.Name)
		}
		seen[b.Name] = true
		if got, ok := ByName(b.Name); got != b || !ok {
			t.Errorf("ByName(%q) = %+v, %v; want the row", b.Name, got, ok)
		}
		if b.Arch != "amd64" && b.Arch != "arm64" {
			t.Errorf("%s has the architecture %q; want amd64 or arm64", b.Name, b.Arch)
		}
		if b.Firmware != RaspberryPi && b.Firmware != UEFI {
			t.Errorf("%s has the firmware %d", b.Name, b.Firmware)
		}
		// Without UEFI nothing but the device tree tells boards apart.
		if (b.Firmware == UEFI) != (b.Compatible == "") {
			t.Errorf("%s has the compatible string %q", b.Name, b.Compatible)
		}
		if !strings.Contains(b.Console, "console=tty") || strings.TrimSpace(b.Console) != b.Console {
			t.Errorf("%s has the console arguments %q", b.Name, b.Console)
		}
		if !strings.Contains(", "+Names()+",", ", "+b.Name+",") {
			t.Errorf("Names() = %q; want %s in it", Names(), b.Name)
		}
		// Each row can be reached.
		facts := Facts{Arch: b.Arch, EFI: b.Firmware == UEFI}
		if b.Compatible != "" {
			facts.Compatible = tree(b.Compatible)
		}
		if got, _ := Detect(facts); got != b {
			t.Errorf("Detect(%+v) = %q; want %q", facts, got.Name, b.Name)
		}
	}
	if got, ok := ByName("toaster"); ok {
		t.Errorf("ByName(toaster) = %+v, true; want false", got)
	}
}
