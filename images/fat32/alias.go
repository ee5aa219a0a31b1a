package fat32

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// maxTail is the largest number that a tail "~n" may carry.
const maxTail = 999999

// shortName is a name as a directory entry stores it: eight characters and an
// extension of three, padded with spaces, without the dot.
type shortName [11]byte

func packShort(base, ext string) shortName {
	var s shortName
	copy(s[:8], base+"        ")
	copy(s[8:], ext+"   ")
	return s
}

// String gives the usual spelling, with the dot.
func (s shortName) String() string {
	base := strings.TrimRight(string(s[:8]), " ")
	if ext := strings.TrimRight(string(s[8:]), " "); ext != "" {
		return base + "." + ext
	}
	return base
}

// checksum ties the entries of a long name to their short one: a tool that
// knows nothing of long names and replaces the short entry breaks the tie.
func (s shortName) checksum() byte {
	var sum byte
	for _, c := range s {
		sum = sum>>1 | sum<<7
		sum += c
	}
	return sum
}

// aliases gives out the short names of one directory.
type aliases struct {
	taken map[string]bool // folded long names and short names given out
	next  map[string]int  // by basis: the number to try first
}

func newAliases() *aliases {
	return &aliases{taken: map[string]bool{}, next: map[string]int{}}
}

// reserve keeps an alias from being the name of another file. Every name of
// the directory, folded, goes in before the first assign.
func (a *aliases) reserve(folded string) { a.taken[folded] = true }

// assign gives the short name of name, which checkName has accepted, and says
// whether a long name must stand beside it. A name that is a short name but
// for its case keeps it; any other gets a numeric tail.
func (a *aliases) assign(name string) (short shortName, needLong bool, err error) {
	base, ext, exact := shortBasis(name)
	if exact {
		return packShort(base, ext), base+dotted(ext) != name, nil
	}
	for n := a.next[base+"."+ext] + 1; n <= maxTail; n++ {
		tail := "~" + strconv.Itoa(n)
		short = packShort(base[:min(len(base), 8-len(tail))]+tail, ext)
		if !a.taken[short.String()] {
			a.next[base+"."+ext] = n
			a.taken[short.String()] = true
			return short, true, nil
		}
	}
	return short, true, fmt.Errorf("%w: no short alias is left for it", ErrName)
}

// shortBasis is the specification's basis-name generation. exact says that
// base and ext are the whole of name but for its case.
func shortBasis(name string) (base, ext string, exact bool) {
	stem, suffix := name, ""
	if dot := strings.LastIndexByte(name, '.'); dot > 0 {
		stem, suffix = name[:dot], name[dot+1:]
	}
	base, baseExact := shortPart(stem, 8)
	ext, extExact := shortPart(suffix, 3)
	if base == "" {
		base = "_" // nothing but dots and spaces before the extension
	}
	return base, ext, baseExact && extExact && base+dotted(ext) == strings.ToUpper(name)
}

// shortPart keeps the first limit usable characters of s. Dots and spaces
// vanish and what a short name cannot hold becomes "_".
func shortPart(s string, limit int) (part string, exact bool) {
	exact = true
	var b strings.Builder
	for _, r := range s {
		// unicode.ToUpper would turn some letters beyond ASCII into ASCII.
		if r < 0x80 {
			r = unicode.ToUpper(r)
		}
		if r == ' ' || r == '.' {
			exact = false
			continue
		}
		if !shortChar(r) {
			r, exact = '_', false
		}
		if b.Len() == limit {
			return b.String(), false
		}
		b.WriteRune(r)
	}
	return b.String(), exact
}

func dotted(ext string) string {
	if ext == "" {
		return ""
	}
	return "." + ext
}
