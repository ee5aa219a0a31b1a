package kmod

// matches reports whether name matches pattern as fnmatch(3) has it without
// flags, which is what aliases are written for: "*" and "?" match any
// character, "/" among them, which path.Match would not do; "[...]" is a set,
// negated by "!" or "^"; a "[" without its "]" stands for itself. Outside of
// sets, "-" and "_" are one, as in the names of modules.
func matches(pattern, name string) bool {
	p, n := 0, 0
	// Where to go on when the rest does not match: the last "*" takes one
	// character more. Earlier ones never need to, so that it takes at most
	// len(pattern) * len(name) steps.
	star, taken := -1, 0
	for n < len(name) || p < len(pattern) {
		if p < len(pattern) && pattern[p] == '*' {
			star, taken = p, n
			p++
			continue
		}
		if p < len(pattern) && n < len(name) {
			if width, ok := one(pattern[p:], name[n]); ok {
				p, n = p+width, n+1
				continue
			}
		}
		if star < 0 || taken >= len(name) {
			return false
		}
		taken++
		p, n = star+1, taken
	}
	return true
}

// one matches one character at the start of pattern, and returns how much of
// the pattern it took.
func one(pattern string, c byte) (width int, ok bool) {
	switch {
	case pattern[0] == '?':
		return 1, true
	case pattern[0] == '[':
		if end := setEnd(pattern); end > 0 {
			return end, inSet(pattern[1:end-1], c)
		}
	case pattern[0] == '\\' && len(pattern) > 1:
		return 2, same(pattern[1], c)
	}
	return 1, same(pattern[0], c)
}

func same(a, b byte) bool { return a == b || (a == '-' || a == '_') && (b == '-' || b == '_') }

// setEnd returns the length of the set at the start of pattern, 0 when it has
// no end. A "]" that comes first is a member.
func setEnd(pattern string) int {
	i := 1
	if i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^') {
		i++
	}
	for first := i; i < len(pattern); i++ {
		switch {
		case pattern[i] == '\\':
			i++
		case pattern[i] == ']' && i > first:
			return i + 1
		}
	}
	return 0
}

// inSet reports whether c is in the set, given without its brackets.
func inSet(set string, c byte) bool {
	negated := set[0] == '!' || set[0] == '^'
	if negated {
		set = set[1:]
	}
	found := false
	for i := 0; i < len(set); {
		low, width := member(set[i:])
		i += width
		high := low
		if i+1 < len(set) && set[i] == '-' {
			high, width = member(set[i+1:])
			i += 1 + width
		}
		found = found || low <= c && c <= high
	}
	return found != negated
}

// member reads one character of a set.
func member(set string) (c byte, width int) {
	if set[0] == '\\' && len(set) > 1 {
		return set[1], 2
	}
	return set[0], 1
}
