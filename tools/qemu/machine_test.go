package qemu

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"machined/board"
)

// update rewrites the golden files: go test ./tools/qemu -update.
var update = flag.Bool("update", false, "rewrite the golden files")

// TestArguments compares what QEMU is called with, board by board, one
// argument a line. The scratch directory is written as DIR.
func TestArguments(t *testing.T) {
	for _, b := range board.Table() {
		t.Run(b.Name, func(t *testing.T) {
			compareArguments(t, b.Name, Options{Board: b, MemoryMB: 512, APIPort: 50001})
		})
	}
	t.Run("late disk", func(t *testing.T) {
		b, _ := board.ByName("x86_64-uefi")
		compareArguments(t, "late-disk", Options{Board: b, MemoryMB: 1024, APIPort: 50002, LateDisk: true})
	})
}

func compareArguments(t *testing.T, name string, o Options) {
	t.Helper()
	dir := t.TempDir()
	v := &VM{Options: o, dir: dir, disk: filepath.Join(dir, "disk.img")}
	// The firmware's variables are there already: their template comes with a
	// package that the machine may lack.
	if err := os.WriteFile(filepath.Join(dir, "efivars.fd"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var boot *directBoot
	if o.Board.Firmware == board.RaspberryPi {
		boot = &directBoot{
			kernel: filepath.Join(dir, "kernel"), initramfs: filepath.Join(dir, "initramfs"), dtb: filepath.Join(dir, "dtb"),
			cmdline: "console=ttyAMA0 machined.slot=A" + quirks(o.Board.Name),
		}
	}
	program, args, err := v.arguments(boot)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(program+"\n"+strings.Join(args, "\n")+"\n", dir, "DIR")
	golden := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("arguments(%s) = \n%s\nwant\n%s", name, got, want)
	}
}

func TestArgumentsOfUnknownBoard(t *testing.T) {
	v := &VM{Options: Options{Board: board.Board{Name: "toaster"}}, dir: t.TempDir()}
	if _, _, err := v.arguments(nil); err == nil || !strings.Contains(err.Error(), `"toaster"`) || !strings.Contains(err.Error(), board.Names()) {
		t.Errorf("arguments(toaster) = %v; want an error that names it and the boards there are", err)
	}
}

// TestVariables has the machine keep its own firmware variables over resets.
func TestVariables(t *testing.T) {
	template := filepath.Join(t.TempDir(), "template.fd")
	if err := os.WriteFile(template, []byte("fresh"), 0o600); err != nil {
		t.Fatal(err)
	}
	v := &VM{dir: t.TempDir()}
	for _, want := range []string{"fresh", "written by the firmware"} {
		path, err := v.variables(template)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("variables() = a file with %q, %v; want %q", got, err, want)
		}
		if err := os.WriteFile(path, []byte("written by the firmware"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	v = &VM{dir: t.TempDir()}
	if _, err := v.variables(filepath.Join(v.dir, "none.fd")); err == nil {
		t.Error("variables() = nil without a template; want an error")
	}
}
