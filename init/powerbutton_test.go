package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestKeyBit(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the bitmaps here are of 64-bit kernels")
	}
	for _, c := range []struct {
		bitmap string
		bit    int
		want   bool
	}{
		{"10000000000000 0\n", keyPower, true}, // an ACPI power button: 116 = 64 + 52
		{"0 10000000000000 0", keyPower, true},
		{"8000000000000 0", keyPower, false}, // 115
		{"20000000000000 0", keyPower, false},
		{"402000000 3803078f800d001 feffffdfffefffff fffffffffffffffe", keyPower, true}, // a keyboard with such a key
		{"1", 0, true},
		{"1", 64, false}, // beyond the map
		{"", keyPower, false},
		{"0", keyPower, false},
		{"xyz 0", keyPower, false},
		{"1000000000000G 0", keyPower, false},
	} {
		if got := keyBit(c.bitmap, c.bit); got != c.want {
			t.Errorf("keyBit(%q, %d) = %v; want %v", c.bitmap, c.bit, got, c.want)
		}
	}
}

func FuzzKeyBit(f *testing.F) {
	f.Add("10000000000000 0\n", keyPower)
	f.Add("ffffffffffffffffffff", 0)
	f.Fuzz(func(t *testing.T, bitmap string, bit int) {
		if bit < 0 {
			return
		}
		if keyBit(bitmap, bit) && len(strings.Fields(bitmap)) <= bit/64 {
			t.Errorf("keyBit(%q, %d) = true beyond the map", bitmap, bit)
		}
	})
}

// TestPowerButton plays the input devices of a board with FIFOs.
func TestPowerButton(t *testing.T) {
	root := t.TempDir()
	for device, bitmap := range map[string]string{"event0": "10000000000000 0", "event1": "1", "event2": "10000000000000 0"} {
		write(t, filepath.Join(root, "sys/class/input", device, "device/capabilities/key"), bitmap+"\n")
	}
	path := filepath.Join(root, "dev/input/event0")
	mustDo(t, os.MkdirAll(filepath.Dir(path), 0o755))
	mustDo(t, unix.Mkfifo(path, 0o600))
	presses := make(chan int, 10)
	ended := make(chan string, 3)
	watchPowerButton(root, func(name string, run func()) {
		go func() {
			run()
			ended <- name
		}()
	}, func() { presses <- 1 })
	// event2 has no device node and ends at once.
	if got := <-ended; got != "power button "+filepath.Join(root, "dev/input/event2") {
		t.Errorf("%s ended first; want that of event2", got)
	}
	w, err := os.OpenFile(path, os.O_WRONLY, 0)
	mustDo(t, err)
	press := func(kind, code uint16, value uint32) {
		_, err := w.Write(inputEvent{kind: kind, code: code, value: value}.bytes())
		mustDo(t, err)
	}
	press(0, 0, 0)            // a report's end
	press(evKey, 30, 1)       // another key
	press(2, keyPower, 1)     // no key at all
	press(evKey, keyPower, 0) // released
	press(evKey, keyPower, 2) // held
	press(evKey, keyPower, 1)
	press(0, 0, 0)
	select {
	case <-presses:
	case <-time.After(10 * time.Second):
		t.Fatal("the press was not seen")
	}
	mustDo(t, w.Close())
	if got := <-ended; !strings.HasSuffix(got, "event0") || len(presses) != 0 {
		t.Errorf("%s ended, %d presses more; want event0, and none", got, len(presses))
	}
}
