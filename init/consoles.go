package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
)

// openConsoles returns every console that the kernel prints to, so that a line
// is seen on the serial port and on HDMI. The kernel opened /dev/console as
// the standard output of PID 1; it is the last of the active ones, and reached
// that way even where its device is bound to a driver and cannot be opened.
func openConsoles(stdout io.Writer, root string) []io.Writer {
	all := []io.Writer{stdout}
	// Absent in stage 1, which is short and has /dev/console.
	active, _ := os.ReadFile(filepath.Join(root, "sys/class/tty/console/active"))
	names := strings.Fields(string(active))
	for i, name := range names {
		if i == len(names)-1 {
			break
		}
		if f, err := os.OpenFile(filepath.Join(root, "dev", name), os.O_WRONLY, 0); err == nil {
			all = append(all, f)
		}
	}
	return all
}
