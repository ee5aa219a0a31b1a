package piboot

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

func TestTrybootRequested(t *testing.T) {
	tests := []struct {
		name, log string
		want      bool
	}{
		{"empty", "", false},
		{"set", "bcm2835_property: unhandled tag 0x00038064\n", true},
		{"set among others", "bcm2835_property: unhandled tag 0x00030066\nbcm2835_property: unhandled tag 0x00038064\nx\n", true},
		{"cut short by the exit", "x\nbcm2835_property: unhandled tag 0x00038064", true},
		{"reading the flag is not setting it", "bcm2835_property: unhandled tag 0x00030064\n", false},
		{"other tags", "bcm2835_property: unhandled tag 0x000380640\nbcm2835_property: unhandled tag 0x00038065\n", false},
		{"part of a longer line", "x bcm2835_property: unhandled tag 0x00038064\n", false},
		{"end of an overlong line", strings.Repeat("x", 4096) + "bcm2835_property: unhandled tag 0x00038064\n", false},
		{"after an overlong line", strings.Repeat("x", 10000) + "\nbcm2835_property: unhandled tag 0x00038064\n", true},
	}
	for _, tt := range tests {
		if got, err := TrybootRequested(strings.NewReader(tt.log)); got != tt.want || err != nil {
			t.Errorf("%s: TrybootRequested() = %t, %v; want %t", tt.name, got, err, tt.want)
		}
	}
	broken := errors.New("broken")
	if _, err := TrybootRequested(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("TrybootRequested of a broken reader = %v; want %v", err, broken)
	}
}

func TestOneShot(t *testing.T) {
	var o OneShot
	steps := []struct {
		what string
		do   func()
		want bool
	}{
		{"power on", func() {}, false},
		{"plain reset", func() {}, false},
		{"reset with the flag", o.Request, true},
		{"the trial panics", func() {}, false},
		{"the flag, then a power cut", func() { o.Request(); o.PowerCut() }, false},
		{"the flag twice", func() { o.Request(); o.Request() }, true},
		{"and only once", func() {}, false},
	}
	for _, s := range steps {
		s.do()
		if got := o.Boot(); got != s.want {
			t.Errorf("%s: Boot() = %t; want %t", s.what, got, s.want)
		}
	}
}
