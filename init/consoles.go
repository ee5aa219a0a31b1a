package main

import (
	"errors"
	"io"
	"os"
	"strings"
)

// openConsoles opens every console that the kernel prints to, so that a line
// is seen on the serial port and on HDMI. /dev/console alone is only the last
// of the kernel's console= arguments.
func openConsoles() io.Writer {
	var all consoles
	active, _ := os.ReadFile("/sys/class/tty/console/active")
	for name := range strings.FieldsSeq(string(active)) {
		if f, err := os.OpenFile("/dev/"+name, os.O_WRONLY, 0); err == nil {
			all = append(all, f)
		}
	}
	if len(all) > 0 {
		return all
	}
	// Before stage 1 has mounted /sys and /dev the kernel's own standard
	// output, /dev/console, is all there is.
	return os.Stdout
}

// consoles writes to all of its members; one that fails keeps none from the
// others.
type consoles []io.Writer

func (c consoles) Write(b []byte) (int, error) {
	var errs []error
	for _, w := range c {
		_, err := w.Write(b)
		errs = append(errs, err)
	}
	return len(b), errors.Join(errs...)
}
