package x86

import (
	"errors"
	"strings"
	"testing"
)

func TestParseEntry(t *testing.T) {
	written := Entry("A", 7, "v1", "quiet")
	for _, c := range []struct {
		name, text string
		enabled    bool
		generation int
		err        error
	}{
		{"as written", written, true, 7, nil},
		{"disabled", "#" + written[1:], false, 7, nil},
		{"the lowest", Entry("A", 0, "v1", ""), true, 0, nil},
		{"below nothing", Entry("A", -1, "v1", ""), true, 0, nil},
		{"the highest", Entry("A", lastGeneration, "v1", ""), true, lastGeneration, nil},
		{"beyond the highest", Entry("A", lastGeneration+1, "v1", ""), true, lastGeneration, nil},
		{"with the user's lines", "# mine\n\n" + written + "options debug\n", true, 7, nil},
		{"white space, quotes, ends of lines of Windows", "\t linux \t/A/linux.efi\r\n sort-key \"machined-99999992\"\r\n", true, 7, nil},
		{"nothing", "", false, 0, ErrEntry},
		{"no linux", "sort-key machined-99999992\n", false, 0, ErrEntry},
		{"linux twice", written + written, false, 0, ErrEntry},
		{"efi", written + "efi /x.efi\n", false, 0, ErrEntry},
		{"no generation", "linux /A/linux.efi\nsort-key machined\n", false, 0, ErrEntry},
		{"a short generation", "linux /A/linux.efi\nsort-key machined-1\n", false, 0, ErrEntry},
		{"another sort key", "linux /A/linux.efi\nsort-key other\n", false, 0, ErrEntry},
		{"cut off in the key", written[:40], false, 0, ErrEntry},
		{"beyond the first sector", strings.Repeat("#\n", 240) + written, false, 0, ErrEntry},
	} {
		got, err := ParseEntry([]byte(c.text))
		if got.Enabled != c.enabled || got.Generation != c.generation || !errors.Is(err, c.err) {
			t.Errorf("%s: ParseEntry = %+v, %v; want enabled %v, generation %d, %v", c.name, got, err, c.enabled, c.generation, c.err)
		}
	}
}

// TestKeyOf checks that a higher generation comes first by character, at the
// same length.
func TestKeyOf(t *testing.T) {
	last := "~"
	for _, n := range []int{0, 1, 2, 9, 10, 11, 99, 100, 12345678, 99999998, 99999999} {
		key := keyOf(n)
		if len(key) != keyDigits || key >= last {
			t.Errorf("keyOf(%d) = %q; want eight digits, before %q", n, key, last)
		}
		last = key
	}
}

func TestFindDefault(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "timeout 0\n": "", "default machined-*\n": "machined-*", "  default\tx.conf  \r\n": "x.conf", "#default x\n": "", "default \"x y\"\n": "x y",
		"default a\ndefault b": "b", "default\n": "", "default a\ndefault @other\n": "a", "default a\ndefault @SAVED\n": "@SAVED", "defaults a\n": "",
	} {
		if got := FindDefault([]byte(text)); got != want {
			t.Errorf("FindDefault(%q) = %q; want %q", text, got, want)
		}
	}
}

// FuzzParseEntry checks that what was found can be changed in place: to be
// disabled and enabled, and to another generation.
func FuzzParseEntry(f *testing.F) {
	f.Add([]byte(Entry("A", 7, "v1", "quiet")))
	f.Add([]byte("#inux /B/linux.efi\n\tsort-key\t\"machined-00000000\"\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := ParseEntry(text)
		if err != nil {
			return
		}
		if e.linux >= sector || e.key+keyDigits > sector {
			t.Fatalf("ParseEntry = %+v; want both within a sector", e)
		}
		changed := append([]byte(nil), text...)
		copy(changed[e.key:], keyOf(42))
		changed[e.linux] = '#'
		if e.Enabled == false {
			changed[e.linux] = 'l'
		}
		again, err := ParseEntry(changed)
		if want := (EntryText{!e.Enabled, 42, e.linux, e.key}); err != nil || again != want {
			t.Fatalf("ParseEntry of the changed text = %+v, %v; want %+v", again, err, want)
		}
	})
}

func FuzzFindDefault(f *testing.F) {
	f.Add([]byte("timeout 0\ndefault machined-*\neditor no\n"))
	f.Add([]byte("\tdefault\t\"@saved\"\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got := FindDefault(text); strings.ContainsAny(got, "\n") || strings.HasPrefix(got, "@") && !strings.EqualFold(got, "@saved") {
			t.Fatalf("FindDefault = %q; want a part of one line", got)
		}
	})
}
