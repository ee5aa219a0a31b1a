package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestModules checks that modules are looked for below the release of the
// kernel that runs, and that one which cannot be loaded costs a line.
func TestModules(t *testing.T) {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	mustDo(t, err)
	r := newRig(t)
	dir := r.at(filepath.Join(modulesDir, strings.TrimSpace(string(release))))
	write(t, filepath.Join(dir, "modules.alias"), "alias platform:lost lost\n")
	write(t, filepath.Join(dir, "modules.dep"), "kernel/lost.ko:\n")
	write(t, r.at("/sys/devices/platform/lost/modalias"), "platform:lost\n")
	mustDo(t, r.loadModules())
	want := "modules: load module lost: open " + filepath.Join(dir, "kernel/lost.ko") + ": no such file or directory.\n"
	for deadline := time.Now().Add(10 * time.Second); !r.screen.shows(r.log, want); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the console lacks %q", want)
		}
	}
}
