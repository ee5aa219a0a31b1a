package qemu

import (
	"os"
	"os/exec"
	"testing"
)

// TestPortable has machinectl, which this package is a part of, build for the
// laptops that it runs on.
func TestPortable(t *testing.T) {
	if testing.Short() {
		t.Skip("builds for other systems; left out by -short")
	}
	for _, goos := range []string{"darwin", "windows"} {
		for _, args := range [][]string{{"build", "-o", os.DevNull, "machined/tools/machinectl"}, {"vet", "machined/tools/machinectl", "machined/tools/qemu"}} {
			cmd := exec.Command("go", args...)
			cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=arm64", "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("GOOS=%s go %s: %v\n%s", goos, args[0], err, out)
			}
		}
	}
}
