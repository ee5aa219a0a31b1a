package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConsoles checks that a line is shown on each console: the last of the
// active ones by way of standard output, the others by their devices.
func TestConsoles(t *testing.T) {
	for _, c := range []struct {
		name, active string
		want         []string // files with the line, beside standard output
	}{
		{"stage 1, without /sys", "", nil},
		{"one", "ttyAMA0\n", nil},
		{"two", "tty0 ttyAMA0\n", []string{"tty0"}},
		{"one without a device", "ttyS9 tty0 ttyAMA0\n", []string{"tty0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			if c.active != "" {
				write(t, filepath.Join(root, "sys/class/tty/console/active"), c.active)
			}
			for _, device := range []string{"tty0", "ttyAMA0"} {
				write(t, filepath.Join(root, "dev", device), "")
			}
			var stdout strings.Builder
			for _, w := range openConsoles(&stdout, root) {
				_, err := io.WriteString(w, "line")
				mustDo(t, err)
			}
			if stdout.String() != "line" {
				t.Errorf("standard output has %q; want the line once", stdout.String())
			}
			for _, device := range []string{"tty0", "ttyAMA0"} {
				text, err := os.ReadFile(filepath.Join(root, "dev", device))
				mustDo(t, err)
				want := ""
				if len(c.want) > 0 && c.want[0] == device {
					want = "line"
				}
				if string(text) != want {
					t.Errorf("%s shows %q; want %q", device, text, want)
				}
			}
		})
	}
}
