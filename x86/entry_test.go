package x86

import (
	"errors"
	"testing"
)

func TestParseEntryName(t *testing.T) {
	plain := func(name string) EntryName { return EntryName{Name: name} }
	for _, c := range []struct {
		file string
		want EntryName
		text string // what String gives back, empty for the same
	}{
		{"machined-a.conf", plain("machined-a"), ""},
		{"machined-a+3.conf", EntryName{"machined-a", true, 3, 0}, ""},
		{"machined-a+2-1.conf", EntryName{"machined-a", true, 2, 1}, ""},
		{"machined-a+0-3.conf", EntryName{"machined-a", true, 0, 3}, ""},
		{"a+3-0.conf", EntryName{"a", true, 3, 0}, "a+3.conf"},
		{"a+007-04.conf", EntryName{"a", true, 7, 4}, "a+7-4.conf"},
		{"a+2147483647-2147483647.conf", EntryName{"a", true, 2147483647, 2147483647}, ""},
		// Not counters, and so a part of the name.
		{"a+2147483648.conf", plain("a+2147483648"), ""},
		{"a+21474836470.conf", plain("a+21474836470"), ""},
		{"a+99999999999999999999.conf", plain("a+99999999999999999999"), ""},
		{"a+.conf", plain("a+"), ""},
		{"a+3-.conf", plain("a+3-"), ""},
		{"a+-1.conf", plain("a+-1"), ""},
		{"a+3-1-1.conf", plain("a+3-1-1"), ""},
		{"a+three.conf", plain("a+three"), ""},
		{"a+3x.conf", plain("a+3x"), ""},
		{"1.2+rc1+2-1.conf", EntryName{"1.2+rc1", true, 2, 1}, ""},
		{".conf.conf", plain(".conf"), ""},
	} {
		got, err := ParseEntryName(c.file)
		if got != c.want || err != nil {
			t.Errorf("ParseEntryName(%q) = %+v, %v; want %+v", c.file, got, err, c.want)
		}
		if c.text == "" {
			c.text = c.file
		}
		if got.String() != c.text {
			t.Errorf("%+v.String() = %q; want %q", got, got.String(), c.text)
		}
	}
	for _, file := range []string{"", ".conf", "+3.conf", "+3-1.conf", "a", "a.efi", "a+3", "a+3+2.conf", "dir/a.conf", `dir\a.conf`} {
		if got, err := ParseEntryName(file); !errors.Is(err, ErrName) || got != (EntryName{}) {
			t.Errorf("ParseEntryName(%q) = %+v, %v; want %v", file, got, err, ErrName)
		}
	}
}

func TestSlotEntry(t *testing.T) {
	if got, want := SlotEntry("B").String(), "machined-b.conf"; got != want {
		t.Errorf("SlotEntry(B) = %q; want %q", got, want)
	}
	const want = "linux /B/linux.efi\nsort-key machined-99999992\ninitrd /B/initramfs.img\ntitle machined B\nversion 1.2\noptions console=ttyS0 quiet\n"
	if got := Entry("B", 7, "1.2", "console=ttyS0 quiet"); got != want {
		t.Errorf("Entry(B) = %q; want %q", got, want)
	}
}

// FuzzParseEntryName checks that a name which was read can be written and read
// again, with and without its counter: the loader and machined rename files in
// turns.
func FuzzParseEntryName(f *testing.F) {
	for _, file := range []string{"machined-a.conf", "machined-a+3.conf", "machined-b+2-1.conf", "a+3+2.conf", "+-.conf"} {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file string) {
		n, err := ParseEntryName(file)
		if err != nil {
			return
		}
		if again, err := ParseEntryName(n.String()); again != n || err != nil {
			t.Fatalf("ParseEntryName(%q) = %+v, and of its own text %q it is %+v, %v", file, n, n.String(), again, err)
		}
		good := EntryName{Name: n.Name}
		if again, err := ParseEntryName(good.String()); again != good || err != nil {
			t.Fatalf("ParseEntryName(%q), the counter taken off = %+v, %v; want %+v", good.String(), again, err, good)
		}
	})
}
