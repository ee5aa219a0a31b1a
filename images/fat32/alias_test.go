package fat32

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestAliases(t *testing.T) {
	tests := []struct {
		names []string
		want  []string // "=" in front: no long name needed
	}{
		{[]string{"README", "KERNEL8.IMG"}, []string{"=README", "=KERNEL8.IMG"}},
		{[]string{"config.txt", "Config2.TXT"}, []string{"CONFIG.TXT", "CONFIG2.TXT"}},
		{[]string{"bcm2710-rpi-3-b-plus.dtb", "bcm2710-rpi-3-b.dtb"}, []string{"BCM271~1.DTB", "BCM271~2.DTB"}},
		{[]string{"FOO~1.TXT", "foo bar.txt"}, []string{"=FOO~1.TXT", "FOOBAR~1.TXT"}},
		{[]string{"longer~name.txt", "LONGER~1.TXT"}, []string{"LONGER~2.TXT", "=LONGER~1.TXT"}},
		{[]string{"longername", "LONGER~1"}, []string{"LONGER~2", "=LONGER~1"}},
		{[]string{".hidden"}, []string{"HIDDEN~1"}},
		{[]string{".a.b"}, []string{"A~1.B"}},
		{[]string{"a.b.c"}, []string{"AB~1.C"}},
		{[]string{"x.jpeg"}, []string{"X~1.JPE"}},
		{[]string{"日本"}, []string{"__~1"}},
		{[]string{"ſ", "s"}, []string{"_~1", "S"}},
		{[]string{"a+b"}, []string{"A_B~1"}},
		{[]string{" .x"}, []string{"_~1.X"}},
		{[]string{"..x"}, []string{"_~1.X"}},
	}
	for _, tt := range tests {
		if got := assignAll(t, tt.names); !slices.Equal(got, tt.want) {
			t.Errorf("aliases of %q = %q; want %q", tt.names, got, tt.want)
		}
	}
}

func assignAll(t *testing.T, names []string) []string {
	t.Helper()
	a := newAliases()
	for _, n := range names {
		a.reserve(foldName(n))
	}
	var got []string
	for _, n := range names {
		short, long, err := a.assign(n)
		if err != nil {
			t.Fatalf("assign(%q): %v", n, err)
		}
		s := short.String()
		if !long {
			s = "=" + s
		}
		got = append(got, s)
	}
	return got
}

// A tail that grows by a digit takes one from the basis.
func TestAliasTailGrows(t *testing.T) {
	var names []string
	for i := range 1200 {
		names = append(names, fmt.Sprintf("a-long-name-%d.conf", i))
	}
	got := assignAll(t, names)
	for i, want := range map[int]string{0: "A-LONG~1.CON", 9: "A-LON~10.CON", 99: "A-LO~100.CON", 1199: "A-L~1200.CON"} {
		if got[i] != want {
			t.Errorf("alias %d = %q; want %q", i, got[i], want)
		}
	}
}

func TestChecksum(t *testing.T) {
	// By hand: rotate right and add, over 'A' and ten spaces.
	var want byte = 'A'
	for range 10 {
		want = want&1<<7 + want>>1 + ' '
	}
	if got := packShort("A", "").checksum(); got != want {
		t.Errorf("checksum = %#x; want %#x", got, want)
	}
}

func FuzzAlias(f *testing.F) {
	f.Add("config.txt\nCONFIG~1.TXT\nconfiguration.txt\nconfiguration.text")
	f.Add("日本.日本\n.x\n..x\n +.=\na.b.c")
	f.Fuzz(func(t *testing.T, joined string) {
		a, longs := newAliases(), map[string]bool{}
		var names []string
		for _, n := range strings.Split(joined, "\n") {
			if checkName(n) == nil && !longs[foldName(n)] {
				names, longs[foldName(n)] = append(names, n), true
				a.reserve(foldName(n))
			}
		}
		seen := map[string]string{}
		for _, n := range names {
			short, long, err := a.assign(n)
			if err != nil {
				t.Fatalf("assign(%q): %v", n, err)
			}
			checkShort(t, n, short)
			s := short.String()
			if other, ok := seen[s]; ok {
				t.Fatalf("%q and %q share the alias %q", other, n, s)
			}
			seen[s] = n
			if !long && s != n {
				t.Fatalf("%q has no long name, but reads as %q", n, s)
			}
			if longs[s] && foldName(n) != s {
				t.Fatalf("the alias %q of %q is another file's name", s, n)
			}
		}
	})
}

func checkShort(t *testing.T, name string, s shortName) {
	t.Helper()
	for _, part := range []string{string(s[:8]), string(s[8:])} {
		for _, c := range strings.TrimRight(part, " ") {
			if !shortChar(c) {
				t.Fatalf("alias of %q is %q, with %q", name, s[:], c)
			}
		}
	}
	if s[0] == ' ' {
		t.Fatalf("alias of %q is %q, with an empty base", name, s[:])
	}
}
