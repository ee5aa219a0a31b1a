package reconcile

import (
	"strconv"

	"machined/reconcile/resource"
)

// Output is a kind that a writer writes.
type Output struct {
	Kind resource.Kind
	// Shared lets others write the kind too, each its own resources.
	Shared bool
}

type owner struct {
	name    string // "" for a number that is free
	outputs []Output
	writes  uint64 // bit 1<<kind for each output
}

// OutputError says which two writers exclude each other.
type OutputError struct {
	Kind          resource.Kind
	Holder, Other string
}

func (e *OutputError) Error() string {
	return strconv.Quote(e.Other) + " cannot write " + e.Kind.String() + ": " + strconv.Quote(e.Holder) +
		" writes it, and one of the two asks to be the only one"
}

func (e *OutputError) Unwrap() error { return ErrOutputs }

// Register makes a writer known, with all that it will write.
func (s *Store) Register(name string, outputs ...Output) (Owner, error) {
	if name == "" {
		return 0, ErrName
	}
	place := len(s.owners)
	for i, other := range s.owners {
		if other.name == "" {
			place = i
			continue
		}
		if other.name == name {
			return 0, ErrName
		}
		if err := other.excludes(name, outputs); err != nil {
			return 0, err
		}
	}
	if place >= maxOwners {
		return 0, ErrFull
	}
	if place == len(s.owners) {
		s.owners = append(s.owners, owner{})
	}
	o := owner{name: name, outputs: outputs}
	for _, out := range outputs {
		o.writes |= 1 << out.Kind
	}
	s.owners[place] = o
	return Owner(place + 1), nil
}

func (o *owner) excludes(name string, outputs []Output) error {
	for _, out := range outputs {
		for _, held := range o.outputs {
			if held.Kind == out.Kind && !(held.Shared && out.Shared) {
				return &OutputError{Kind: out.Kind, Holder: o.name, Other: name}
			}
		}
	}
	return nil
}

// Collect tears down all that a writer owns and returns how many resources wait
// for finalizers. Called again when it returned 0, or first, it costs a look at
// each table.
func (s *Store) Collect(by Owner) (left int) {
	for _, t := range s.tables {
		left += t.teardownOwned(by)
	}
	return left
}

// Unregister collects what a writer owns, lets go of what it holds by
// finalizers, and forgets the writer, whose number is given to the next one. It
// reports false while finalizers of others keep something alive: call it again.
func (s *Store) Unregister(by Owner) bool {
	if by == 0 || int(by) > len(s.owners) {
		return true
	}
	for _, t := range s.tables {
		t.letGo(by)
	}
	if s.Collect(by) > 0 {
		return false
	}
	s.owners[by-1] = owner{}
	return true
}

// OwnerName returns the name of a writer, "" for nobody.
func (s *Store) OwnerName(o Owner) string {
	if o == 0 || int(o) > len(s.owners) {
		return ""
	}
	return s.owners[o-1].name
}

// mayWrite reports whether a writer has declared the kind.
func (t *tableCore) mayWrite(by Owner) error {
	if by == 0 || int(by) > len(t.store.owners) || t.store.owners[by-1].writes&(1<<t.kind) == 0 {
		return ErrOutput
	}
	return nil
}
