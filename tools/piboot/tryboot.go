package piboot

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// unhandledTag is what QEMU logs, with -d unimp, when the guest sends the
// mailbox tag SET_REBOOT_FLAGS. The kernel's firmware driver sends it only to
// set the tryboot flag, just before the reset.
const unhandledTag = "bcm2835_property: unhandled tag 0x00038064"

// TrybootRequested says whether the guest has set the one-shot tryboot flag,
// according to the log that QEMU wrote with -d unimp -D FILE. The log must be
// that of one run, from one reset to the next.
func TrybootRequested(log io.Reader) (bool, error) {
	r := bufio.NewReader(log)
	for inside := false; ; {
		line, err := r.ReadSlice('\n')
		if !inside && strings.TrimRight(string(line), "\r\n") == unhandledTag {
			return true, nil
		}
		// A line that exceeds the buffer comes in parts; none is of interest.
		inside = errors.Is(err, bufio.ErrBufferFull)
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil && !inside:
			return false, fmt.Errorf("piboot: reading QEMU's log: %w", err)
		}
	}
}

// OneShot is the firmware's tryboot flag as seen from outside. It lives in a
// register that survives a reset but not a loss of power. The zero value is a
// board that has just been powered on.
type OneShot struct {
	armed bool
}

// Request notes that the guest has set the flag.
func (o *OneShot) Request() { o.armed = true }

// PowerCut notes that the board has lost power, which clears the flag.
func (o *OneShot) PowerCut() { o.armed = false }

// Boot says whether the boot that starts now is a trial, and clears the flag:
// the firmware does so before it loads anything, so a trial that hangs or
// panics is followed by a plain boot.
func (o *OneShot) Boot() (tryboot bool) {
	tryboot, o.armed = o.armed, false
	return tryboot
}
