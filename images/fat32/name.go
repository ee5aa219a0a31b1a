package fat32

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNameUnits is the length limit of a long name, in UTF-16 code units.
const maxNameUnits = 255

// checkName refuses what a long name may not contain, and what Windows would
// silently change: trailing dots and spaces.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: an empty component; paths are relative, with single slashes", ErrName)
	case name == "." || name == "..":
		return fmt.Errorf("%w: %q is reserved", ErrName, name)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: %q is not UTF-8", ErrName, name)
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		return fmt.Errorf("%w: %q ends in a dot or a space", ErrName, name)
	}
	for _, r := range name {
		// U+FFFF is the padding of long-name entries.
		if r < 0x20 || r == 0x7f || r == 0xffff || strings.ContainsRune(`"*/:<>?\|`, r) {
			return fmt.Errorf("%w: %q contains %q, which FAT does not allow", ErrName, name, r)
		}
	}
	if n := len(utf16.Encode([]rune(name))); n > maxNameUnits {
		return fmt.Errorf("%w: %q has %d UTF-16 units, FAT allows %d", ErrName, name, n, maxNameUnits)
	}
	return nil
}

// foldName gives the form under which FAT compares names.
func foldName(name string) string {
	return strings.Map(unicode.ToUpper, name)
}

// shortChar says whether c, already upper-case, may stand in a short name. The
// specification also allows bytes from 0x80, but what those mean depends on
// the reader's code page.
func shortChar(c rune) bool {
	return c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c < 0x80 && strings.ContainsRune("$%'-_@~`!(){}^#&", c)
}

// packLabel makes the eleven bytes of a volume label, padded with spaces.
func packLabel(label string) ([11]byte, error) {
	packed := [11]byte([]byte("NO NAME    "))
	if label == "" {
		return packed, nil
	}
	upper := strings.ToUpper(label)
	if len(upper) > len(packed) || strings.HasPrefix(upper, " ") {
		return packed, fmt.Errorf("fat32: %w: volume label %q: at most %d characters, the first not a space", ErrName, label, len(packed))
	}
	for _, c := range upper {
		if c != ' ' && !shortChar(c) {
			return packed, fmt.Errorf("fat32: %w: volume label %q contains %q; use letters, digits, spaces and - _", ErrName, label, c)
		}
	}
	copy(packed[:], upper+strings.Repeat(" ", len(packed)-len(upper)))
	return packed, nil
}
