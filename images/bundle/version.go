package bundle

import (
	"cmp"
	"strings"
)

// Compare orders versions as git-describe(1) names them, such as v1.2.3,
// v1.2.3-rc.1 and v1.2.3-4-gabc1234-dirty: by the tag as Semantic Versioning 2.0
// has it (section 11, where a pre-release is before the release and what is
// behind + does not count), then by the commits since the tag, then with changes
// that are in no commit last. It returns less than 0 when a is older than b, and
// 0 when neither is.
//
// ok is false when that cannot be told: there is no tag in a plain hash, nor in
// "devel". Equal versions are as old even so.
func Compare(a, b string) (order int, ok bool) {
	if a == b && a != "" {
		return 0, true
	}
	x, okX := parseVersion(a)
	y, okY := parseVersion(b)
	if !okX || !okY {
		return 0, false
	}
	return cmp.Or(
		compareNumbers(x.numbers[0], y.numbers[0]), compareNumbers(x.numbers[1], y.numbers[1]), compareNumbers(x.numbers[2], y.numbers[2]),
		comparePre(x.pre, y.pre), compareNumbers(x.commits, y.commits), cmp.Compare(x.dirty, y.dirty),
	), true
}

// Comparable reports whether other versions can be older or newer than v.
func Comparable(v string) bool {
	_, ok := parseVersion(v)
	return ok
}

// version is what git-describe(1) says of a tag vMAJOR.MINOR.PATCH[-PRE]. Its
// numbers are decimal digits of any length.
type version struct {
	numbers [3]string
	pre     string
	commits string // since the tag
	dirty   int    // 1 for changes that are in no commit
}

func parseVersion(s string) (v version, ok bool) {
	// A hash of digits alone is no version: those begin with a v.
	rest, ok := strings.CutPrefix(s, "v")
	if !ok {
		return v, false
	}
	if clean, dirty := strings.CutSuffix(rest, "-dirty"); dirty {
		rest, v.dirty = clean, 1
	}
	rest, v.commits = cutCommits(rest)
	rest, _, _ = strings.Cut(rest, "+")
	rest, pre, hasPre := strings.Cut(rest, "-")
	numbers := strings.Split(rest, ".")
	if len(numbers) != len(v.numbers) || !digits(numbers[0]) || !digits(numbers[1]) || !digits(numbers[2]) {
		return v, false
	}
	copy(v.numbers[:], numbers)
	v.pre = pre
	return v, !hasPre || wellFormed(pre)
}

// cutCommits takes -N-gHASH off the end.
func cutCommits(s string) (tag, commits string) {
	i := strings.LastIndex(s, "-g")
	if i < 0 || len(s)-i-2 < 4 || strings.Trim(s[i+2:], "0123456789abcdef") != "" {
		return s, "0"
	}
	j := strings.LastIndexByte(s[:i], '-')
	if j < 0 || !digits(s[j+1:i]) {
		return s, "0"
	}
	return s[:j], s[j+1 : i]
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// wellFormed reports whether s is words of letters, digits and dashes with dots
// between them.
func wellFormed(s string) bool {
	for word := range strings.SplitSeq(s, ".") {
		if word == "" {
			return false
		}
		for i := range len(word) {
			if word[i] != '-' && !alphanumeric(word[i]) {
				return false
			}
		}
	}
	return true
}

// compareNumbers compares decimal digits of any length.
func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

func comparePre(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == "":
		return 1
	case b == "":
		return -1
	}
	for a != "" && b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		if c := compareIdentifiers(x, y); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b)) // more of them is newer
}

// compareIdentifiers has numbers before words.
func compareIdentifiers(a, b string) int {
	switch x, y := digits(a), digits(b); {
	case x && y:
		return compareNumbers(a, b)
	case x:
		return -1
	case y:
		return 1
	}
	return strings.Compare(a, b)
}
