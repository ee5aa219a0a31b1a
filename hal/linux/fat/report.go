package fat

import (
	"fmt"
	"strings"
)

// maxPaths is how many paths a report lists of a kind.
const maxPaths = 8

// Report is what Repair did.
type Report struct {
	// Mirrored is how many sectors of 512 bytes differed between the two FATs
	// and were copied: from the first to the second, or the other way round if
	// FromSecond says so.
	Mirrored   int
	FromSecond bool
	// Freed is how many clusters were allocated and reached by nothing.
	Freed int
	// Shortened are files whose size was more than their clusters hold, and
	// directories that lost clusters which had never been written. They were
	// being written when the power went.
	Shortened Paths
	// Trimmed are files that had more clusters than their size takes, or a
	// chain without an end behind their last one. Their contents are as before.
	Trimmed Paths
	// Removed are directories whose contents had never been written.
	Removed Paths
	// LongNames is how many entries of long names had no short name to them.
	LongNames int
	// Gaps is how many unused entries were before used ones in a directory,
	// which ended there for all but Linux.
	Gaps int
	// Summary says that the count of free clusters was wrong.
	Summary bool
	// Dirty says that the volume was marked dirty.
	Dirty bool
}

// Paths counts files, and names the first of them.
type Paths struct {
	Count int
	First []string // with slashes, from the root of the volume, at most 8
}

func (p *Paths) add(path string) {
	p.Count++
	if len(p.First) < maxPaths {
		p.First = append(p.First, path)
	}
}

// String is one line without an end.
func (r Report) String() string {
	var parts []string
	number := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", what, n))
		}
	}
	paths := func(p Paths, what string) {
		if p.Count == 0 {
			return
		}
		list := fmt.Sprintf("%q", p.First)
		if more := p.Count - len(p.First); more > 0 {
			list += fmt.Sprintf(" and %d more", more)
		}
		parts = append(parts, what+": "+list)
	}
	paths(r.Shortened, "unfinished and cut to what was written")
	paths(r.Removed, "unfinished directories removed")
	paths(r.Trimmed, "whole, freed of surplus clusters")
	number(r.Freed, "lost clusters freed")
	number(r.LongNames, "lost parts of long names removed")
	number(r.Gaps, "gaps in directories closed")
	if r.FromSecond {
		number(r.Mirrored, "sectors of the first FAT restored from the second")
	} else {
		number(r.Mirrored, "sectors of the second FAT made like the first")
	}
	if r.Summary {
		parts = append(parts, "free space counted anew")
	}
	if r.Dirty {
		parts = append(parts, "marked clean")
	}
	if len(parts) == 0 {
		return "nothing to repair"
	}
	return strings.Join(parts, "; ")
}
