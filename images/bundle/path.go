package bundle

import (
	"fmt"
	"strings"
)

// maxPath bounds a path, and a name in it, in bytes. FAT takes names of 255
// UTF-16 units; what reads and writes them elsewhere wants room for a suffix.
const maxPath = 200

// checkPath refuses what leaves the slot, what FAT or one of its readers would
// take for another name, and what the node writes itself.
func checkPath(path string) error {
	if path == "" || len(path) > maxPath {
		return fmt.Errorf("%w: path %.64q has %d bytes; want 1 to %d", ErrManifest, path, len(path), maxPath)
	}
	for name := range strings.SplitSeq(path, "/") {
		if err := checkName(path, name); err != nil {
			return err
		}
	}
	switch fold(path) {
	case "cmdline.txt", "manifest.json":
		return fmt.Errorf("%w: the node writes %s itself, since it differs from slot to slot", ErrManifest, path)
	}
	return nil
}

func checkName(path, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: path %q is not relative with single slashes", ErrManifest, path)
	case strings.HasPrefix(name, ".") || strings.HasSuffix(name, "."):
		// ".." is among them, and FAT drops dots at the end.
		return fmt.Errorf("%w: in path %q a name begins or ends with a dot", ErrManifest, path)
	}
	for i := range len(name) {
		// ~ is left out, since FAT's short aliases (LICENS~1) are names, too.
		if c := name[i]; !alphanumeric(c) && strings.IndexByte("-_.+,=@", c) < 0 {
			return fmt.Errorf("%w: path %q has %q; use letters, digits and - _ . + , = @", ErrManifest, path, c)
		}
	}
	return nil
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// comparePaths orders paths as if they were in lower case, with / before all
// else. So a path comes right behind one that FAT takes for the same, and what
// is in a directory right behind a file of the directory's name.
func comparePaths(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if x, y := rank(a[i]), rank(b[i]); x != y {
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}

func rank(c byte) byte {
	switch {
	case c == '/':
		return 0
	case 'A' <= c && c <= 'Z':
		return c + 'a' - 'A'
	}
	return c
}

// fold is what two names have in common that FAT takes for one.
func fold(path string) string { return strings.ToLower(path) }

// checkNeighbours looks at two paths in the order of comparePaths.
func checkNeighbours(before, path string) error {
	switch c := comparePaths(before, path); {
	case c == 0:
		return fmt.Errorf("%w: paths %q and %q are one on FAT", ErrManifest, before, path)
	case c > 0:
		return fmt.Errorf("%w: path %q comes behind %q; files are sorted by path in lower case, / first", ErrManifest, path, before)
	case len(path) > len(before) && path[len(before)] == '/' && comparePaths(before, path[:len(before)]) == 0:
		return fmt.Errorf("%w: %q is a file, and %q is below it", ErrManifest, before, path)
	}
	return nil
}
