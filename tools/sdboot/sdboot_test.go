package sdboot

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"
)

// esp makes an EFI system partition of pairs: a path and a content. Both kernels
// are there.
func esp(pairs ...string) fstest.MapFS {
	m := fstest.MapFS{"A/linux.efi": {}, "B/linux.efi": {}}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return m
}

const (
	a = "loader/entries/a.conf"
	b = "loader/entries/b.conf"
	// A sorts before B by its key.
	textA = "linux /A/linux.efi\nsort-key m-1\nversion 1\n"
	textB = "linux /B/linux.efi\nsort-key m-2\nversion 2\n"
	conf  = "loader/loader.conf"
)

func TestSelect(t *testing.T) {
	for _, c := range []struct {
		name      string
		boot      fstest.MapFS
		variables Variables
		want      string // file; empty for none
	}{
		{"the first by sort key", esp(a, textA, b, textB), Variables{}, "a.conf"},
		{"no entries", esp(), Variables{}, ""},
		{"the version, descending", esp(a, "linux /A/linux.efi\nsort-key m\nversion 9\n", b, "linux /B/linux.efi\nsort-key m\nversion 10\n"), Variables{}, "b.conf"},
		{"the name, descending", esp(a, "linux /A/linux.efi\nsort-key m\nversion 1\n", b, "linux /B/linux.efi\nsort-key m\nversion 1\n"), Variables{}, "b.conf"},
		{"the machine id before the version", esp(a, "linux /A/linux.efi\nsort-key m\nmachine-id 1\nversion 1\n", b, "linux /B/linux.efi\nsort-key m\nmachine-id 2\nversion 2\n"), Variables{}, "a.conf"},
		{"with a sort key before without", esp(a, "linux /A/linux.efi\nsort-key z\n", b, "linux /B/linux.efi\n"), Variables{}, "a.conf"},
		{"without a sort key, the name", esp(a, "linux /A/linux.efi\nversion 2\n", b, "linux /B/linux.efi\nversion 1\n"), Variables{}, "b.conf"},
		{"a counter does not matter while boots are left", esp("loader/entries/a+1-2.conf", textA, b, textB), Variables{}, "a+1-2.conf"},
		{"none left is last", esp("loader/entries/a+0-3.conf", textA, b, textB), Variables{}, "b.conf"},
		{"none left alone is booted", esp("loader/entries/a+0-3.conf", textA), Variables{}, "a+0-3.conf"},
		{"a kernel that is not there", esp(a, "linux /C/linux.efi\nsort-key m\n", b, textB), Variables{}, "b.conf"},
		{"a kernel that is a directory", esp(a, "linux /A\nsort-key m\n", b, textB), Variables{}, "b.conf"},
		{"nothing to boot", esp(a, "#inux /A/linux.efi\nsort-key m\n", b, textB), Variables{}, "b.conf"},
		{"an empty file", esp(a, "", b, textB), Variables{}, "b.conf"},
		{"white space and quotes", esp(a, "\t linux \t \"/A/linux.efi\"\r\nsort-key m\n", b, textB), Variables{}, "a.conf"},
		{"not an entry", esp("loader/entries/a.conf.new", textA, "loader/entries/auto-a.conf", textA, b, textB), Variables{}, "b.conf"},
		{"default", esp(a, textA, b, textB, conf, "default b.conf\n"), Variables{}, "b.conf"},
		{"default, a pattern in other case", esp(a, textA, b, textB, conf, "timeout 0\ndefault B*\n"), Variables{}, "b.conf"},
		{"default takes the first that matches", esp(a, textA, b, textB, conf, "default [a-c].conf\n"), Variables{}, "a.conf"},
		{"default takes one with none left", esp("loader/entries/b+0-3.conf", textB, a, textA, conf, "default b*\n"), Variables{}, "b+0-3.conf"},
		{"default that matches nothing", esp(a, textA, b, textB, conf, "default c*\n"), Variables{}, "a.conf"},
		{"a default that is a comment", esp(a, textA, b, textB, conf, "#default b.conf\n"), Variables{}, "a.conf"},
		{"the last default", esp(a, textA, b, textB, conf, "default a.conf\ndefault b.conf\n"), Variables{}, "b.conf"},
		{"an unknown @", esp(a, textA, b, textB, conf, "default b.conf\ndefault @other\n"), Variables{}, "b.conf"},
		{"@saved", esp(a, textA, b, textB, conf, "default @saved\n"), Variables{EntryLastBooted: "b.conf"}, "b.conf"},
		{"the variable wins", esp(a, textA, b, textB, conf, "default a.conf\n"), Variables{EntryDefault: "b.conf"}, "b.conf"},
		{"once wins over all", esp(a, textA, b, textB), Variables{EntryDefault: "a.conf", EntryOneShot: "b.conf"}, "b.conf"},
	} {
		got, err := Select(c.boot, c.variables)
		if got.File != c.want || (c.want == "") != errors.Is(err, ErrNothing) {
			t.Errorf("%s: Select = %q, %v; want %q", c.name, got.File, err, c.want)
		}
	}
}

// unreadable fails to open one file.
type unreadable struct {
	fs.FS
	name string
}

func (u unreadable) Open(name string) (fs.File, error) {
	if name == u.name {
		return nil, errors.New("a chain leads to cluster 0")
	}
	return u.FS.Open(name)
}

func TestUnreadable(t *testing.T) {
	boot := esp(a, textA, b, textB, conf, "default a.conf\n")
	for name, want := range map[string]string{a: "b.conf", b: "a.conf", conf: "a.conf"} {
		if got, err := Select(unreadable{boot, name}, Variables{}); got.File != want || err != nil {
			t.Errorf("Select without %s = %q, %v; want %s", name, got.File, err, want)
		}
	}
}

func TestEntry(t *testing.T) {
	text := "title x\nlinux \\A\\linux.efi\ninitrd /A/1\ninitrd /A/2\noptions a b\noptions c\nsort-key k\nmachine-id m\nversion v\n"
	got, err := Select(esp("loader/entries/x+2-1.conf", text), Variables{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Linux != "A/linux.efi" || !slices.Equal(got.Initrd, []string{"A/1", "A/2"}) || got.Options != "a b c" ||
		got.SortKey != "k" || got.MachineID != "m" || got.Version != "v" || !got.Counted || got.Left != 2 || got.Done != 1 {
		t.Errorf("the entry is %+v", got)
	}
}

func TestRenamed(t *testing.T) {
	for file, want := range map[string]string{
		"x.conf": "x.conf", "x+3.conf": "x+2-1.conf", "x+2-1.conf": "x+1-2.conf", "x+1-2.conf": "x+0-3.conf", "x+0-3.conf": "x+0-4.conf",
		"x+1+3.conf": "x+1+2-1.conf", "x+.conf": "x+.conf", "x+3-.conf": "x+3-.conf", "x+3-1-1.conf": "x+3-1-1.conf",
	} {
		e := Entry{File: file}
		e.count()
		if got := e.Renamed(); got != want {
			t.Errorf("%s is renamed %s; want %s", file, got, want)
		}
	}
}

// TestCompareVersions has each list in ascending order.
func TestCompareVersions(t *testing.T) {
	for _, list := range [][]string{
		{"122~rc1-1", "122-1", "122.1", "123~rc1-1", "123", "123-a", "123-a.1", "123-1", "123-1.1", "123^post1", "123.a-1", "123.1-1", "123a-1", "124-1"},
		{"a", "b", "ba"},
		{"9", "10", "010.1", "10.2"},
		{"~", "", "-", "a", "1"},
		{"A", "a"},
	} {
		for i := range list {
			for j := range list {
				got, want := compareVersions(list[i], list[j]), 0
				switch {
				case i < j:
					want = -1
				case i > j:
					want = 1
				}
				if got != want {
					t.Errorf("compareVersions(%q, %q) = %d; want %d", list[i], list[j], got, want)
				}
			}
		}
	}
	if got := compareVersions("1_0", "1+0"); got != 0 {
		t.Errorf("compareVersions with other characters = %d; want 0", got)
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"machined-*", "machined-a.conf", true}, {"machined-*", "machined-b+2-1.conf", true}, {"machined-*", "other.conf", false},
		{"", "", true}, {"*", "", true}, {"?", "", false}, {"a?c", "abc", true}, {"*b*", "abc", true}, {"*b", "abc", false},
		{"[ab]", "b", true}, {"[ab]", "c", false}, {"[a-c]x", "bx", true}, {"[]]", "]", true}, {"[a", "a", false}, {`\*`, "*", true}, {`\*`, "a", false}, {`a\`, "a", false},
	} {
		if got := matches(c.pattern, c.name); got != c.want {
			t.Errorf("matches(%q, %q) = %v; want %v", c.pattern, c.name, got, c.want)
		}
	}
}
