package kmod

import (
	"regexp"
	"strings"
	"testing"
)

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true},
		{"", "a", false},
		{"a", "", false},
		{"*", "", true},
		{"*", "of:N(null)T/soc/usb", true}, // path.Match stops at a slash
		{"a?c", "a/c", true},
		{"?", "", false},
		{"a*b*c", "axxbyybzzc", true},
		{"a*b*c", "axxbyybzz", false},
		{"***a", "bba", true},
		{"usb:v19ABp1000d01[0-1]*dc*dsc*dp*ic0Eisc01ip00in*", "usb:v19ABp1000d0113dcEFdsc02dp01ic0Eisc01ip00in00", true},
		{"usb:v19ABp1000d01[0-1]*dc*dsc*dp*ic0Eisc01ip00in*", "usb:v19ABp1000d0123dcEFdsc02dp01ic0Eisc01ip00in00", false},
		{"sdio:c*v02D0dA9A6*", "sdio:c00v02D0dA9A6", true},
		{"sdio:c*v02D0dA9A6*", "sdio:c00v02D0dA9A7", false},
		{"pci:v00008086d000010D3sv*sd*bc*sc*i*", "pci:v00008086d000010D3sv00008086sd00000000bc02sc00i00", true},
		{"of:N*T*Cbrcm,bcm2835-rngC*", "of:NrngT(null)Cbrcm,bcm2835_rngCx", true}, // "-" and "_" are one
		{"a-b", "a_b", true},
		{"[abc]", "b", true},
		{"[abc]", "d", false},
		{"[!abc]", "d", true},
		{"[^abc]", "b", false},
		{"[]]", "]", true},
		{"[!]]", "]", false},
		{"[!]]", "a", true},
		{"[a-]", "-", true},
		{"[a-]", "b", false},
		{"[0-9A-F]x", "Cx", true},
		{"[z-a]", "m", false},
		{`[\]]`, "]", true},
		{`[\!a]`, "!", true},
		{"[", "[", true}, // path.Match calls these malformed
		{"[ab", "[ab", true},
		{"[]", "[]", true},
		{"[!", "[!", true},
		{`\*`, "*", true},
		{`\*`, "a", false},
		{`\`, `\`, true},
		{"a]", "a]", true},
	} {
		if got := matches(c.pattern, c.name); got != c.want {
			t.Errorf("matches(%q, %q) = %v; want %v", c.pattern, c.name, got, c.want)
		}
	}
}

// TestMatchTakesItsTime checks that a pattern of many stars does not take for
// ever, as with a matcher that tries all combinations.
func TestMatchTakesItsTime(t *testing.T) {
	if matches(strings.Repeat("a*", 50)+"b", strings.Repeat("a", 4000)) {
		t.Error("matches(a*a*...b, aaa...) = true; want false")
	}
}

// FuzzMatches compares with a regular expression of the same meaning.
func FuzzMatches(f *testing.F) {
	for _, s := range [][2]string{
		{"usb:v*p*d01[0-1]*", "usb:v19ABp1000d0113"}, {"[!a-c]*?", "dx"}, {`[\]-a]`, "^"}, {"a*[", "ab["}, {`[a\`, `[a\`}, {"[--0]", "."}, {"_*-", "-_"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 100 || len(name) > 1000 {
			return
		}
		re, err := regexp.Compile(`(?s)\A` + expression(pattern) + `\z`)
		if err != nil {
			t.Fatalf("expression(%q): %v", pattern, err)
		}
		if got, want := matches(pattern, name), re.MatchString(latin(name)); got != want {
			t.Errorf("matches(%q, %q) = %v; want %v, by the expression %s", pattern, name, got, want, re)
		}
	})
}

// expression translates a pattern, whose bytes become the characters of their
// numbers.
func expression(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '*':
			b.WriteString(".*")
		case c == '?':
			b.WriteString(".")
		case c == '[' && closing(pattern[i:]) > 0:
			end := closing(pattern[i:])
			b.WriteString(setExpression(pattern[i+1 : i+end]))
			i += end
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString(literal(pattern[i]))
		default:
			b.WriteString(literal(c))
		}
	}
	return b.String()
}

func literal(c byte) string {
	if c == '-' || c == '_' {
		return "[-_]"
	}
	return regexp.QuoteMeta(latin(string([]byte{c})))
}

// closing finds the end of a set, 0 or less when it has none: members are
// escaped pairs or single bytes, and the first may be "]".
func closing(pattern string) int {
	set := regexp.MustCompile(`(?s)\A\[[!^]?(?:\\.|[^\\])(?:\\.|[^\\\]])*\]`)
	return len(set.FindString(latinToASCII(pattern))) - 1
}

// setExpression lists the members one by one, for want of the same ranges in
// regular expressions.
func setExpression(s string) string {
	negated := s[0] == '!' || s[0] == '^'
	if negated {
		s = s[1:]
	}
	var members []byte
	var dashes []bool // an unescaped "-"
	for i := 0; i < len(s); i++ {
		escaped := s[i] == '\\' && i+1 < len(s)
		if escaped {
			i++
		}
		members, dashes = append(members, s[i]), append(dashes, s[i] == '-' && !escaped)
	}
	in := make(map[byte]bool)
	for i := 0; i < len(members); i++ {
		low, high := members[i], members[i]
		if i+2 < len(members) && dashes[i+1] {
			high = members[i+2]
			i += 2
		}
		for c := int(low); c <= int(high); c++ {
			in[byte(c)] = true
		}
	}
	var b strings.Builder
	for c := range 256 {
		if in[byte(c)] != negated {
			b.WriteString("|" + regexp.QuoteMeta(latin(string([]byte{byte(c)}))))
		}
	}
	if b.Len() == 0 {
		return `[^\x00-\x{10FFFF}]`
	}
	return "(?:" + b.String()[1:] + ")"
}

// latin makes each byte a character, so that an expression sees bytes.
func latin(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

// latinToASCII keeps a pattern's length where latin would not.
func latinToASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 0x80 {
			b[i] = 'x'
		}
	}
	return string(b)
}
