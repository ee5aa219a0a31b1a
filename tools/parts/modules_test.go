package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestPinned finds the modules that hold files through the imports that keep
// them in go.mod.
func TestPinned(t *testing.T) {
	out, err := exec.Command("go", "list", "-tags", "pinned", "-f", `{{join .Imports "\n"}}`, ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	imports := strings.Fields(string(out))
	for _, module := range []string{
		"github.com/gokrazy/firmware", "github.com/gokrazy/kernel.amd64", "github.com/gokrazy/kernel.arm64",
		"github.com/gokrazy/kernel.rpi", "golang.org/x/vulndb",
	} {
		found := false
		for _, i := range imports {
			found = found || i == module || strings.HasPrefix(i, module+"/")
		}
		if !found {
			t.Errorf("modules.go imports nothing of %s; go mod tidy would drop it", module)
		}
	}
}
