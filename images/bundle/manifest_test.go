package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"machined/hal"
)

const (
	hashOfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	tinyHead      = "machined-bundle 1\nversion v1\nboard b\nbuilt 0\narguments panic=10\n"
	tinyText      = tinyHead + "file " + hashOfNothing + " 0 a\n"
)

// TestBadManifest has each rule of the manifest broken by somebody who has
// sealed it anew, and by who writes one.
func TestBadManifest(t *testing.T) {
	if _, err := readAll(bytes.NewReader(seal(tinyText, 0))); err != nil {
		t.Fatalf("the manifest that the others differ from: %v", err)
	}
	edit := func(old, new string) string {
		if strings.Count(tinyText, old) != 1 {
			t.Fatalf("%q is not once in the manifest", old)
		}
		return strings.Replace(tinyText, old, new, 1)
	}
	for _, c := range []struct {
		name, text string
		want       error
		says       string
	}{
		{"empty", "", ErrManifest, "begins with"},
		{"another first line", edit("bundle 1", "bundle 2"), ErrManifest, `want "machined-bundle 1"`},
		{"no end of line", strings.TrimSuffix(tinyText, "\n"), ErrManifest, "a whole line"},
		{"an empty line", tinyText + "\n", ErrManifest, `"" where the field file`},
		{"CR LF", strings.ReplaceAll(tinyText, "\n", "\r\n"), ErrManifest, "begins with"},
		{"a field of another name", edit("board", "bord"), ErrManifest, `"bord b" where the field board was to come`},
		{"an unknown field", tinyText + "x y\n", ErrManifest, "field file"},
		{"a field is missing", edit("board b\n", ""), ErrManifest, "field board"},
		{"an empty version", edit("version v1", "version "), ErrManifest, "there is no version"},
		{"a version of two words", edit("version v1", "version v 1"), ErrManifest, "is not of at most"},
		{"a version beyond ASCII", edit("version v1", "version v\u00e9"), ErrManifest, "is not of at most"},
		{"a version with a quote", edit("version v1", "version v\"1"), ErrManifest, "is not of at most"},
		{"a version without end", edit("version v1", "version "+strings.Repeat("v", 129)), ErrManifest, "is not of at most"},
		{"an empty minimum", edit("arguments", "minimum \narguments"), ErrManifest, "behind minimum"},
		{"a hash for a minimum", edit("arguments", "minimum 08c378b\narguments"), ErrManifest, "use one such as v1.2.3"},
		{"a negative time", edit("built 0", "built -1"), ErrManifest, "is no number"},
		{"a leading zero", edit("built 0", "built 00"), ErrManifest, "is no number"},
		{"a long number", edit("built 0", "built 1234567890123456789"), ErrManifest, "is no number"},
		{"a time far off", edit("built 0", "built 253402300800"), ErrManifest, "want Unix seconds"},
		{"no arguments", edit("panic=10", ""), ErrManifest, "arguments"},
		{"two spaces", edit("panic=10", "panic=10  quiet"), ErrManifest, "one space"},
		{"a tab", edit("panic=10", "panic=10\tquiet"), ErrManifest, "one line of ASCII"},
		{"a slot", edit("panic=10", "panic=10 machined.slot=A"), ErrManifest, "the node adds that itself"},
		{"long arguments", edit("panic=10", strings.Repeat("x", 1025)), ErrTooLarge, "1025 bytes"},
		{"no files", tinyHead, ErrManifest, "there are no files"},
		{"a short hash", edit("e3b0", "e3b"), ErrManifest, "no SHA-256"},
		{"no hex", edit("e3b0", "x3b0"), ErrManifest, "no SHA-256"},
		{"upper-case hex", edit("e3b0", "E3B0"), ErrManifest, "no SHA-256"},
		{"no size", edit(" 0 a", " a"), ErrManifest, "is no number"},
		{"a large file", edit(" 0 a", " 2147483649 a"), ErrTooLarge, "2147483649 bytes"},
		{"all too large", tinyHead + fileLines("a", "b", "c"), ErrTooLarge, "all files have"},
		{"many files", tinyHead + strings.Repeat("file\n", MaxFiles+1), ErrTooLarge, "4097 files"},
		{"a duplicate", tinyHead + fileLines("a", "a"), ErrManifest, "are one on FAT"},
		{"a duplicate but for the case", tinyHead + fileLines("A/b", "a/B"), ErrManifest, "are one on FAT"},
		{"another order", tinyHead + fileLines("b", "a"), ErrManifest, "files are sorted"},
		{"the order of bytes", tinyHead + fileLines("a-b", "a/b"), ErrManifest, "files are sorted"},
		{"a file that is a directory", tinyHead + fileLines("A", "a/b"), ErrManifest, `"A" is a file`},
		{"the wrong hash of nothing", edit("e3b0", "e3b1"), ErrDamaged, "read file a of the bundle"},
	} {
		if _, err := readAll(bytes.NewReader(seal(c.text, 0))); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %v and %q", c.name, err, c.want, c.says)
		}
	}
}

// fileLines are those of files that are as large as may be.
func fileLines(paths ...string) string {
	var b strings.Builder
	for _, p := range paths {
		fmt.Fprintf(&b, "file %s %d %s\n", hashOfNothing, MaxFileSize, p)
	}
	return b.String()
}

func TestPaths(t *testing.T) {
	for path, says := range map[string]string{
		"a": "", "overlays/README": "", "licenses/linux-rpi/LICENSE.linux": "", "a_b+c,d=e@f.0": "", strings.Repeat("a", 200): "",
		"manifest.jsonx": "", "overlays/cmdline.txt": "",
		"":            "has 0 bytes",
		"/etc":        "is not relative",
		"a//b":        "is not relative",
		"a/":          "is not relative",
		"..":          "with a dot",
		"../a":        "with a dot",
		"a/../../b":   "with a dot",
		"./a":         "with a dot",
		"a.":          "with a dot",
		"a./b":        "with a dot",
		".hidden":     "with a dot",
		"a b":         "has ' '",
		`a\b`:         `has '\\'`,
		"c:a":         "has ':'",
		"LICENS~1":    "has '~'",
		"a\x00":       `has '\x00'`,
		"a\nb":        `has '\n'`,
		"\u00e9":      "use letters",
		"a*":          "has '*'",
		"cmdline.txt": "the node writes cmdline.txt itself", "CMDLINE.TXT": "the node writes", "Manifest.json": "the node writes",
		strings.Repeat("a", 201): "has 201 bytes",
	} {
		m := Manifest{Version: "v1", Board: "b", Arguments: "panic=10", Files: []hal.SlotFile{slotFile(path, "")}}
		err := Write(io.Discard, m, func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("")), nil }, nil)
		if says == "" && err != nil || says != "" && (!errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), says)) {
			t.Errorf("Write() of path %q = %v; want %q", path, err, says)
		}
		text := tinyHead + "file " + hashOfNothing + " 0 " + path + "\n"
		if _, err := readAll(bytes.NewReader(seal(text, 0))); (err == nil) != (says == "") {
			t.Errorf("path %q in a bundle: %v; want %q", path, err, says)
		}
	}
}
