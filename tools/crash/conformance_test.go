package crash

import (
	"testing"

	"machined/hal/conformance"
	"machined/rpi"
)

// TestBootloaders runs the suite with the rules of the real firmwares.
func TestBootloaders(t *testing.T) {
	for _, m := range machines() {
		t.Run(m.name, func(t *testing.T) {
			conformance.Bootloader(t, func(*testing.T) conformance.BootloaderRig {
				b := m.disk()
				l := m.bootloader(b)
				return conformance.BootloaderRig{
					Bootloader: l,
					Boot: func(t *testing.T, argument string) string {
						rules := m.rules
						if argument == rpi.TrybootArgument {
							rules = Trial
						}
						slot, err := Check(volume(b), rules)
						if err != nil {
							t.Fatal(err)
						}
						c, err := Choose(volume(b), rules)
						if err != nil {
							t.Fatal(err)
						}
						if err := c.rename(b); err != nil {
							t.Fatal(err)
						}
						return slot
					},
					Files:      m.files[1:], // the suite has the system image itself
					Writes:     func() int { return b.Unlocks },
					NoFallback: m.flipFirst,
				}
			})
		})
	}
}
