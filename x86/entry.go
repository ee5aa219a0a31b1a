// Package x86 holds the facts of UEFI boards, x86-64 and arm64, that machined
// rests on: the entries of systemd-boot and how it counts boots.
package x86

import (
	"math"
	"strconv"
	"strings"

	"machined/hal"
)

// Entries is the directory of the entries on the EFI system partition.
const Entries = "loader/entries"

// LoaderFile is what systemd-boot reads for its settings (loader.conf(5)).
const LoaderFile = "loader/loader.conf"

// DefaultPattern is the default of loader.conf with which our entries are
// chosen from by their order alone. A name in its place would be taken even
// with no boots left. An entry of another system is never matched.
const DefaultPattern = "machined-*"

// ErrName says that a file's name is not that of an entry.
const ErrName hal.Error = "not the name of a loader entry; want NAME.conf, NAME+LEFT.conf or NAME+LEFT-DONE.conf"

const suffix = ".conf"

// EntryName is the name of an entry's file (Boot Loader Specification, and
// Automatic Boot Assessment of systemd).
type EntryName struct {
	Name string // without the counter
	// Counted says that the entry is on trial: the loader renames it at each
	// boot, with one less in Left and one more in Done. One with none left
	// sorts behind all others. Without a counter it is known to be good.
	Counted    bool
	Left, Done int // boots
}

// SlotEntry returns the name of the entry of a slot, which is a letter.
func SlotEntry(slot string) EntryName { return EntryName{Name: "machined-" + strings.ToLower(slot)} }

// String returns the file's name.
func (n EntryName) String() string {
	if !n.Counted {
		return n.Name + suffix
	}
	name := n.Name + "+" + strconv.Itoa(n.Left)
	if n.Done > 0 {
		name += "-" + strconv.Itoa(n.Done)
	}
	return name + suffix
}

// ParseEntryName reads the name of a file. As the loader has it, what looks
// like a counter and is not one is a part of the name.
func ParseEntryName(file string) (EntryName, error) {
	base, ok := strings.CutSuffix(file, suffix)
	if !ok || base == "" || strings.ContainsAny(base, "/\\") {
		return EntryName{}, ErrName
	}
	n := cutCounter(base)
	// With two counters the name would change its meaning when the last is
	// taken off.
	if n.Name == "" || n.Counted && cutCounter(n.Name).Counted {
		return EntryName{}, ErrName
	}
	return n, nil
}

func cutCounter(base string) EntryName {
	whole := EntryName{Name: base}
	plus := strings.LastIndexByte(base, '+')
	if plus < 0 {
		return whole
	}
	left, done, two := strings.Cut(base[plus+1:], "-")
	n := EntryName{Name: base[:plus], Counted: true}
	if n.Left, n.Counted = number(left); !n.Counted {
		return whole
	}
	if two {
		if n.Done, n.Counted = number(done); !n.Counted {
			return whole
		}
	}
	return n
}

// number reads digits, and nothing but digits, up to the loader's limit.
func number(digits string) (int, bool) {
	n := 0
	for i := range len(digits) {
		c := digits[i]
		if c < '0' || c > '9' || n > math.MaxInt32/10 {
			return 0, false
		}
		if d := int(c - '0'); n*10 <= math.MaxInt32-d {
			n = n*10 + d
			continue
		}
		return 0, false
	}
	return n, digits != ""
}
