package piboot

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"
)

func TestFilters(t *testing.T) {
	tests := []struct {
		text    string
		tryboot bool
		want    string // of key
	}{
		{"key=1", false, "1"},
		{"[pi3]\nkey=1", false, "1"},
		{"[pi3+]\nkey=1", false, "1"},
		{"[PI3]\nkey=1", false, "1"},
		{" [pi3]\n key=1", false, "1"},
		{"[pi4]\nkey=1", false, ""},
		{"[pi02]\nkey=1", false, ""},
		{"[cm3]\nkey=1", false, ""},
		{"[pi9]\nkey=1", false, ""},
		{"[pi4]\nkey=1\n[all]\nkey=2", false, "2"},
		{"[pi4]\n[pi3]\nkey=1", false, "1"}, // same kind: replaced
		{"[board-type=0x0e]\nkey=1", false, "1"},
		{"[board-type=14]\nkey=1", false, "1"},
		{"[board-type=0x14]\nkey=1", false, ""},
		{"[board-type=x]\nkey=1", false, ""},
		{"[none]\nkey=1\n[pi3]\nkey=2", false, ""}, // other kinds: combined
		{"[none]\nkey=1\n[all]\nkey=2", false, "2"},
		{"[tryboot]\nkey=1", false, ""},
		{"[tryboot]\nkey=1", true, "1"},
		{"[tryboot]\n[pi4]\nkey=1", true, ""},
		{"key=0\n[tryboot]\nkey=1\n[all]\n", true, "1"},
		{"[EDID=X-Y]\nkey=1", false, ""},
		{"[HDMI:0]\nkey=1", false, "1"},
		{"[gpio4=1]\nkey=1", false, ""},
		{"[0x1234]\nkey=1", false, ""},
		{"[strange]\nkey=1", false, ""},
		{"[pi4\nkey=1", false, "1"}, // no filter at all
	}
	for _, tt := range tests {
		s, err := ParseConfig(strings.NewReader(tt.text), Conditions{Board: Pi3APlus(), Tryboot: tt.tryboot})
		if got := s.Values["key"]; err != nil || got != tt.want {
			t.Errorf("%q (tryboot %t): key = %q, %v; want %q", tt.text, tt.tryboot, got, err, tt.want)
		}
	}
}

func TestSerialFilter(t *testing.T) {
	board := Pi3APlus()
	board.Serial = 0x12345678
	s, err := ParseConfig(strings.NewReader("[0x12345678]\nkey=1\n"), Conditions{Board: board})
	if err != nil || s.Values["key"] != "1" {
		t.Errorf("key = %q, %v; want 1", s.Values["key"], err)
	}
}

func TestParseConfig(t *testing.T) {
	long := "cmdline=" + strings.Repeat("x", 120)
	tests := []struct {
		name  string
		text  string
		want  Settings
		warns int
	}{
		{"last wins", "a=1\na=2\r\n", Settings{Values: map[string]string{"a": "2"}}, 0},
		{"comments", "#a=1\n # b=1\nc=1#2\n", Settings{Values: map[string]string{"c": "1#2"}}, 0},
		{"unknown keys and odd values", "camera=x=y\nempty=\n", Settings{Values: map[string]string{"camera": "x=y", "empty": ""}}, 0},
		{"spaces are kept", "a =1\nb= 2\n", Settings{Values: map[string]string{"a ": "1", "b": " 2"}}, 1},
		{"initramfs", "initramfs a.gz,b.gz followkernel\n", Settings{Initramfs: "a.gz,b.gz"}, 0},
		{"initramfs without an address", "initramfs a.gz\n", Settings{Initramfs: "a.gz"}, 1},
		{"initramfs without a name", "initramfs\n", Settings{}, 1},
		{"initramfs with =", "initramfs = a.gz\n", Settings{}, 1},
		{"initramfs with a long name", "initramfs " + strings.Repeat("n", 70) + " 0\n", Settings{Initramfs: strings.Repeat("n", 64)}, 1},
		{"ramfsfile", "ramfsfile=r\n", Settings{Values: map[string]string{"ramfsfile": "r"}, Initramfs: "r"}, 0},
		{"device tree in order", "dtparam=a\ndtoverlay=o,x=1\ndtparam=b\ndevice_tree_overlay=p\n", Settings{
			Values:     map[string]string{"dtparam": "b", "dtoverlay": "o,x=1", "device_tree_overlay": "p"},
			DeviceTree: []Directive{{"dtparam", "a"}, {"dtoverlay", "o,x=1"}, {"dtparam", "b"}, {"dtoverlay", "p"}},
		}, 0},
		{"line too long", long + "\n", Settings{Values: map[string]string{"cmdline": strings.Repeat("x", 90)}}, 1},
		{"no equals sign", "kernel kernel8.img\n", Settings{}, 1},
		{"include", "include i.txt\nb=2\n", Settings{Values: map[string]string{"a": "1", "b": "2"}}, 0},
		{"include changes the filter", "include f.txt\nb=2\n", Settings{}, 0},
		{"include missing", "include none.txt\nb=2\n", Settings{Values: map[string]string{"b": "2"}}, 1},
		{"include without a name", "include\n", Settings{}, 1},
		{"include itself twice", "include loop.txt\n", Settings{Values: map[string]string{"n": "1"}}, 1},
	}
	files := fstest.MapFS{
		"i.txt":    {Data: []byte("a=1\n")},
		"f.txt":    {Data: []byte("[pi4]\n")},
		"loop.txt": {Data: []byte("n=1\ninclude loop.txt\ninclude loop.txt\n")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseConfig(strings.NewReader(tt.text), Conditions{Board: Pi3APlus(), Files: files})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Warnings) != tt.warns {
				t.Errorf("Warnings = %q; want %d", got.Warnings, tt.warns)
			}
			if tt.want.Values == nil {
				tt.want.Values = map[string]string{}
			}
			got.Warnings = nil
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("ParseConfig() =\n%+v; want\n%+v", got, tt.want)
			}
		})
	}
}

func TestParseConfigErrors(t *testing.T) {
	broken := errors.New("broken")
	if _, err := ParseConfig(iotest.ErrReader(broken), Conditions{}); !errors.Is(err, broken) {
		t.Errorf("ParseConfig of a broken reader = %v; want %v", err, broken)
	}
	if _, err := ParseConfig(strings.NewReader(strings.Repeat("a=1\n", 300000)), Conditions{}); err == nil {
		t.Error("ParseConfig of 1.2 MB worked")
	}
}

func TestSettingsNumbers(t *testing.T) {
	s := Settings{Values: map[string]string{"dec": "16", "hex": "0x10", "zero": "0", "text": "on"}}
	tests := []struct {
		key  string
		n    int64
		ok   bool
		bool bool // with false as the default
	}{{"dec", 16, true, true}, {"hex", 16, true, true}, {"zero", 0, true, false}, {"text", 0, false, false}, {"none", 0, false, false}}
	for _, tt := range tests {
		if n, ok := s.Int(tt.key); n != tt.n || ok != tt.ok {
			t.Errorf("Int(%q) = %d, %t; want %d, %t", tt.key, n, ok, tt.n, tt.ok)
		}
		if b := s.Bool(tt.key, false); b != tt.bool {
			t.Errorf("Bool(%q) = %t; want %t", tt.key, b, tt.bool)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add("[pi3]\nkey=1\ninclude self\n[all]\ninitramfs a followkernel\ndtoverlay=x\n", true)
	f.Add("os_prefix=A/\narm_64bit=1\n[board-type=0x0e]\nkernel=/x\n[none]\n", false)
	f.Fuzz(func(t *testing.T, text string, tryboot bool) {
		c := twoSlots().with("config.txt", text, "tryboot.txt", text, "self", text)
		s, err := ParseConfig(strings.NewReader(text), Conditions{Board: Pi3APlus(), Tryboot: tryboot, Files: c.fs()})
		if err != nil && !errors.Is(err, ErrOutside) {
			t.Fatalf("ParseConfig: %v", err)
		}
		if len(s.Warnings) > warningLimit {
			t.Fatalf("%d warnings", len(s.Warnings))
		}
		choice, err := Decide(c.fs(), tryboot)
		if err != nil {
			return
		}
		for _, file := range append([]string{choice.Kernel, choice.DeviceTree, choice.Start}, choice.Overlays...) {
			if _, ok := c[file]; !ok && file != "" {
				t.Fatalf("Decide chose %q, which is not there", file)
			}
		}
	})
}
