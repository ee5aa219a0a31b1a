package piboot

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// boardTree gives a device tree of the kernel module.
func boardTree(t testing.TB, name string) []byte {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gokrazy/kernel.rpi").Output()
	if err != nil || len(bytes.TrimSpace(dir)) == 0 {
		t.Skipf("the module with the device trees is not there: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(string(bytes.TrimSpace(dir)), name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// source decompiles a device tree.
func source(t *testing.T, dtb []byte) []string {
	t.Helper()
	dtc, err := exec.LookPath("dtc")
	if err != nil {
		t.Skip("dtc is not installed")
	}
	cmd := exec.Command(dtc, "-q", "-I", "dtb", "-O", "dts", "-")
	cmd.Stdin = bytes.NewReader(dtb)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("dtc refuses the tree: %v", err)
	}
	return strings.Split(string(out), "\n")
}

// property gives the index of a line within the node that starts with head.
func property(t *testing.T, lines []string, head, line string) int {
	t.Helper()
	start := slices.IndexFunc(lines, func(l string) bool { return strings.TrimSpace(l) == head+" {" })
	if start < 0 {
		t.Fatalf("no node %s", head)
	}
	for i := start; i < len(lines) && strings.TrimSpace(lines[i]) != "};"; i++ {
		if strings.HasPrefix(strings.TrimSpace(lines[i]), line) {
			return i
		}
	}
	t.Fatalf("no %q in %s", line, head)
	return 0
}

// Edit the source of the original by hand; it must equal that of the patched.
func TestPatchDTB(t *testing.T) {
	original := boardTree(t, "bcm2837-rpi-3-a-plus.dtb")
	patched, err := PatchDTB(original)
	if err != nil {
		t.Fatal(err)
	}
	want := source(t, original)
	for _, line := range []string{"dmas =", "dma-names ="} {
		at := property(t, want, "mmc@7e202000", line)
		want = slices.Delete(want, at, at+1)
	}
	for _, edit := range [][2]string{
		{"reg = <0x7e100000 0x114 0x7e00a000 0x24>;", "reg = <0x7e100000 0x114>;"},
		{`reg-names = "pm\0asb";`, `reg-names = "pm";`},
	} {
		at := property(t, want, "watchdog@7e100000", edit[0])
		want[at] = strings.Replace(want[at], edit[0], edit[1], 1)
	}
	got := source(t, patched)
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("line %d of the patched tree = %q; want %q", i+1, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Errorf("the patched tree has %d lines; want %d", len(got), len(want))
	}
	again, err := PatchDTB(patched)
	if err != nil || !bytes.Equal(again, patched) {
		t.Errorf("patching twice: %v, or other bytes than patching once", err)
	}
}

func TestPatchDTBRefuses(t *testing.T) {
	whole := boardTree(t, "bcm2837-rpi-3-a-plus.dtb")
	damaged := bytes.Clone(whole)
	first := binary.BigEndian.Uint32(whole[8:]) + 8 // the root node's first property
	binary.BigEndian.PutUint32(damaged[first+4:], 0xfffffff0)
	tests := []struct {
		name string
		dtb  []byte
		says string
	}{
		{"empty", nil, "cut short"},
		{"half", whole[:len(whole)/2], "cut short"},
		{"no tree", make([]byte, 4096), "damaged"},
		{"property of 4 GB", damaged, "damaged"},
		{"huge", make([]byte, 2<<20), "larger"},
		{"another board", boardTree(t, "bcm2712-rpi-5-b.dtb"), "/soc/mmc@7e202000"},
	}
	for _, tt := range tests {
		if _, err := PatchDTB(tt.dtb); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: PatchDTB() = %v; want %q", tt.name, err, tt.says)
		}
	}
}

// The downstream tree has the same nodes and must come out well formed too.
func TestPatchDTBDownstream(t *testing.T) {
	patched, err := PatchDTB(boardTree(t, "bcm2710-rpi-3-b-plus.dtb"))
	if err != nil {
		t.Fatal(err)
	}
	if total := binary.BigEndian.Uint32(patched[4:]); int(total) != len(patched) {
		t.Errorf("the header says %d bytes; want %d", total, len(patched))
	}
	source(t, patched)
}

func FuzzPatchDTB(f *testing.F) {
	f.Add(boardTree(f, "bcm2837-rpi-3-a-plus.dtb"), uint16(0), uint32(0))
	f.Fuzz(func(t *testing.T, dtb []byte, at uint16, value uint32) {
		if int(at)+4 <= len(dtb) {
			dtb = bytes.Clone(dtb)
			binary.BigEndian.PutUint32(dtb[at:], value)
		}
		PatchDTB(dtb) // must not panic
	})
}
