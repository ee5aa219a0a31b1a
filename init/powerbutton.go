package main

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"unsafe"
)

// The kernel's include/uapi/linux/input-event-codes.h.
const (
	evKey    = 1
	keyPower = 116
)

// watchPowerButton calls pressed at each press of a power key, until reading
// fails. ACPI and GPIO buttons are input devices alike; those that appear
// later are not looked for, since a power button is part of the board.
func watchPowerButton(root string, spawn func(name string, run func()), pressed func()) {
	names, _ := filepath.Glob(filepath.Join(root, "/sys/class/input/event*"))
	for _, n := range names {
		if !hasPowerKey(n) {
			continue
		}
		device := filepath.Join(root, "/dev/input", filepath.Base(n))
		spawn("power button "+device, func() { readPowerButton(device, pressed) })
	}
}

// hasPowerKey reads the device's key bitmap: hexadecimal words of the kernel's
// long, the highest first.
func hasPowerKey(sysDir string) bool {
	b, err := os.ReadFile(filepath.Join(sysDir, "device/capabilities/key"))
	return err == nil && keyBit(string(b), keyPower)
}

func keyBit(bitmap string, bit int) bool {
	const wordBits = int(unsafe.Sizeof(uintptr(0))) * 8
	words := strings.Fields(bitmap)
	i := len(words) - 1 - bit/wordBits
	if i < 0 {
		return false
	}
	var word uint64
	for _, c := range []byte(words[i]) {
		digit := strings.IndexByte("0123456789abcdef", c)
		if digit < 0 {
			return false
		}
		word = word<<4 | uint64(digit)
	}
	return word>>(bit%wordBits)&1 == 1
}

func readPowerButton(device string, pressed func()) {
	f, err := os.Open(device)
	if err != nil {
		return
	}
	defer f.Close()
	// struct input_event: a timeval of two longs, type, code, value.
	const size = 2*int(unsafe.Sizeof(uintptr(0))) + 8
	buf := make([]byte, 16*size)
	for {
		n, err := f.Read(buf)
		if err != nil {
			return
		}
		for b := buf[:n]; len(b) >= size; b = b[size:] {
			e := b[size-8:]
			if binary.NativeEndian.Uint16(e) == evKey && binary.NativeEndian.Uint16(e[2:]) == keyPower && binary.NativeEndian.Uint32(e[4:]) == 1 {
				pressed()
			}
		}
	}
}
