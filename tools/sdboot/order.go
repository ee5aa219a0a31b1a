package sdboot

import (
	"cmp"
	"strings"
)

// compare says which of two entries comes first: see the package's rules.
func compare(a, b Entry) int {
	if r := cmp.Or(
		falseFirst(a.Counted && a.Left == 0, b.Counted && b.Left == 0),
		falseFirst(a.SortKey == "", b.SortKey == ""),
	); r != 0 {
		return r
	}
	if a.SortKey != "" {
		if r := cmp.Or(
			strings.Compare(a.SortKey, b.SortKey),
			strings.Compare(a.MachineID, b.MachineID),
			-compareVersions(a.Version, b.Version),
		); r != 0 {
			return r
		}
	}
	if r := -compareVersions(strings.ToLower(a.File), strings.ToLower(b.File)); r != 0 || !a.Counted || !b.Counted {
		return r
	}
	return cmp.Or(-cmp.Compare(a.Left, b.Left), cmp.Compare(a.Done, b.Done))
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// compareVersions orders two versions (UAPI group 10, Version Format
// Specification).
func compareVersions(a, b string) int {
	for {
		a, b = strings.TrimLeftFunc(a, ignored), strings.TrimLeftFunc(b, ignored)
		// A tilde is before everything, the end too.
		if r, both := separator(&a, &b, '~'); r != 0 {
			return r
		} else if both {
			continue
		}
		if a == "" || b == "" {
			return cmp.Compare(len(a), len(b))
		}
		skipped := false
		for _, c := range []byte("-^.") {
			r, both := separator(&a, &b, c)
			if r != 0 {
				return r
			}
			skipped = skipped || both
		}
		if skipped {
			continue
		}
		if r := compareParts(&a, &b); r != 0 {
			return r
		}
	}
}

// compareParts cuts a number, or else a word, from both, and compares them.
// What has no number where the other has one comes before it.
func compareParts(a, b *string) int {
	if !digit(rune((*a)[0])) && !digit(rune((*b)[0])) {
		return strings.Compare(leading(a, letter), leading(b, letter))
	}
	aPart, bPart := strings.TrimLeft(leading(a, digit), "0"), strings.TrimLeft(leading(b, digit), "0")
	return cmp.Or(cmp.Compare(len(aPart), len(bPart)), strings.Compare(aPart, bPart))
}

// separator compares by whether there is a c, and skips it where both have one.
func separator(a, b *string, c byte) (r int, both bool) {
	aHas, bHas := strings.HasPrefix(*a, string(c)), strings.HasPrefix(*b, string(c))
	if aHas && bHas {
		*a, *b = (*a)[1:], (*b)[1:]
	}
	return -falseFirst(aHas, bHas), aHas && bHas
}

// leading cuts the beginning of s that is of a class.
func leading(s *string, class func(rune) bool) string {
	rest := strings.TrimLeftFunc(*s, class)
	part := (*s)[:len(*s)-len(rest)]
	*s = rest
	return part
}

func digit(r rune) bool  { return r >= '0' && r <= '9' }
func letter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

func ignored(r rune) bool { return !digit(r) && !letter(r) && !strings.ContainsRune("-.~^", r) }

// matches reports whether a name matches a pattern: *, ?, [set], and a backslash
// before a character that is to be taken as it is.
func matches(pattern, name string) bool {
	for pattern != "" {
		if pattern[0] == '*' {
			for i := range len(name) + 1 {
				if matches(pattern[1:], name[i:]) {
					return true
				}
			}
			return false
		}
		if name == "" {
			return false
		}
		one, rest := matchOne(pattern, name[0])
		if !one {
			return false
		}
		pattern, name = rest, name[1:]
	}
	return name == ""
}

// matchOne matches the first element of pattern with one character.
func matchOne(pattern string, c byte) (ok bool, rest string) {
	switch pattern[0] {
	case '?':
		return true, pattern[1:]
	case '\\':
		return len(pattern) > 1 && pattern[1] == c, pattern[min(2, len(pattern)):]
	case '[':
		end := strings.IndexByte(pattern[min(2, len(pattern)):], ']')
		if end < 0 {
			return false, ""
		}
		set := pattern[1 : 2+end]
		for i := 0; i < len(set); i++ {
			if i+2 < len(set) && set[i+1] == '-' {
				ok = ok || set[i] <= c && c <= set[i+2]
				i += 2
				continue
			}
			ok = ok || set[i] == c
		}
		return ok, pattern[3+end:]
	}
	return pattern[0] == c, pattern[1:]
}
