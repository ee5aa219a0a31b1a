package rpi

import (
	"errors"
	"strings"
	"testing"
)

func TestFindSlot(t *testing.T) {
	far := strings.Repeat("# sixteen bytes.\n", 30) // 510 bytes
	for _, c := range []struct {
		name, config string
		want         Slot
		err          error
	}{
		{"as written", Config('A'), Slot{'A', 10}, nil},
		{"as flipped", Config('B', "enable_uart=1"), Slot{'B', 10}, nil},
		{"the line alone", "os_prefix=A/", Slot{'A', 10}, nil},
		{"ends of lines of Windows", "os_prefix=B/\r\narm_64bit=1\r\n", Slot{'B', 10}, nil},
		{"below a comment", "# mine\n  os_prefix=A/ \n", Slot{'A', 19}, nil},
		{"below a filter that is none", "[all]\nos_prefix=A/\n", Slot{'A', 16}, nil},
		{"above a filter", "os_prefix=A/\n[pi4]\narm_freq=1\n", Slot{'A', 10}, nil},
		{"inside of another line", "arm_64bit=1 os_prefix=A/\n", Slot{}, ErrNoSlot},
		{"letter at byte 511", strings.Repeat("#", 500) + "\nos_prefix=A/\n", Slot{'A', 511}, nil},
		{"letter at byte 512", strings.Repeat("#", 501) + "\nos_prefix=A/\n", Slot{}, ErrSlotFar},
		{"far", far + "os_prefix=A/\n", Slot{}, ErrSlotFar},
		{"nothing", "", Slot{}, ErrNoSlot},
		{"no prefix", "arm_64bit=1\n", Slot{}, ErrNoSlot},
		{"commented out", "#os_prefix=A/\n", Slot{}, ErrNoSlot},
		{"no letter", "os_prefix=/\n", Slot{}, ErrNoSlot},
		{"no slash", "os_prefix=A\n", Slot{}, ErrNoSlot},
		{"a directory of another kind", "os_prefix=boot/\n", Slot{}, ErrNoSlot},
		{"a small letter", "os_prefix=a/\n", Slot{}, ErrNoSlot},
		{"for one model", "[pi3]\nos_prefix=A/\n", Slot{}, ErrSlotFiltered},
		{"changed by a later line", "os_prefix=A/\n[tryboot]\nos_prefix=B/\n", Slot{}, ErrSlotTwice},
		{"cleared by a later line", "os_prefix=A/\nos_prefix=\n", Slot{}, ErrSlotTwice},
	} {
		got, err := FindSlot([]byte(c.config))
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("FindSlot(%s) = %+v, %v; want %+v, %v", c.name, got, err, c.want, c.err)
		}
	}
}

func TestConfig(t *testing.T) {
	a, b := Config('A', "enable_uart=1", "dtoverlay=disable-bt"), Config('B', "enable_uart=1", "dtoverlay=disable-bt")
	slot, err := FindSlot([]byte(a))
	if err != nil {
		t.Fatalf("FindSlot(Config(A)) = %v; want success", err)
	}
	flipped := []byte(a)
	flipped[slot.Offset] = 'B'
	if string(flipped) != b {
		t.Errorf("Config(A) with the letter B at byte %d is %q; want Config(B), %q", slot.Offset, flipped, b)
	}
	if want := "gpu_mem=16\nenable_uart=1\ndtoverlay=disable-bt\n"; !strings.HasSuffix(a, want) {
		t.Errorf("Config(A) = %q; want it to end with the board's own lines, %q", a, want)
	}
}

// FuzzFindSlot checks that whatever is found can be flipped: the letter is
// where Offset says, and another letter in its place is found again.
func FuzzFindSlot(f *testing.F) {
	f.Add([]byte(Config('A')))
	f.Add([]byte("\r\n [ALL] \n\tos_prefix=B/\r\n[pi3"))
	f.Add([]byte("os_prefix=A/\nos_prefix=B/"))
	f.Fuzz(func(t *testing.T, config []byte) {
		slot, err := FindSlot(config)
		if err != nil {
			if slot != (Slot{}) {
				t.Fatalf("FindSlot = %+v with %v; want nothing beside an error", slot, err)
			}
			return
		}
		if slot.Offset >= 512 || config[slot.Offset] != slot.Letter {
			t.Fatalf("FindSlot = %+v; want the place of the letter, below 512", slot)
		}
		flipped := append([]byte(nil), config...)
		flipped[slot.Offset] = 'Q'
		if again, err := FindSlot(flipped); err != nil || again != (Slot{'Q', slot.Offset}) {
			t.Fatalf("FindSlot after the flip = %+v, %v; want Q at %d", again, err, slot.Offset)
		}
	})
}
