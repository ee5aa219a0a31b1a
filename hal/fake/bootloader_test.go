package fake_test

import (
	"crypto/sha256"
	"errors"
	"testing"

	"machined/hal"
	"machined/hal/conformance"
	"machined/hal/fake"
)

func TestBootloader(t *testing.T) {
	for name, b := range map[string]fake.Bootloader{"counting": {Tries: 3}, "one-shot": {Argument: "0 tryboot"}} {
		t.Run(name, func(t *testing.T) {
			conformance.Bootloader(t, func(*testing.T) conformance.BootloaderRig {
				b := b
				b.Sum = func(data []byte) [32]byte { return sha256.Sum256(data) }
				return conformance.BootloaderRig{
					Bootloader: &b, Files: []string{"linux.efi"},
					Boot: func(_ *testing.T, argument string) string { return b.Boot(argument) },
				}
			})
		})
	}
}

func TestBootloaderFaults(t *testing.T) {
	var b fake.Bootloader
	b.Fail("Commit", 1, hal.ErrNoDevice)
	if err := b.Commit("A"); !errors.Is(err, hal.ErrNoDevice) {
		t.Errorf("Commit = %v; want the planned fault", err)
	}
	b.Pinned = "other.conf"
	if _, err := b.Try("A", "B"); !errors.Is(err, hal.ErrInvalid) {
		t.Errorf("Try with a pinned entry = %v; want %v", err, hal.ErrInvalid)
	}
}
