package reconcile

import (
	"machined/hal"
	"machined/reconcile/resource"
)

// ErrTwice says that two inputs map to one output.
const ErrTwice hal.Error = "two inputs map to it"

// Mapping turns each resource of one kind into at most one of another.
type Mapping[In, Out Value] struct {
	Name string
	From func(*Store) *Table[In]
	To   func(*Store) *Table[Out]
	// Map is a pure function. ok is false for an input that has no output.
	Map func(In) (out Out, ok bool)
}

// Transform returns the controller of a mapping. It is the only writer of Out.
// An output goes when its input goes, tears down, or maps to nothing.
func Transform[In, Out Value](m Mapping[In, Out]) Controller { return &transform[In, Out]{m} }

type transform[In, Out Value] struct{ Mapping[In, Out] }

func (t *transform[In, Out]) Spec() Spec {
	var in In
	var out Out
	return Spec{Name: t.Name, Inputs: []resource.Kind{in.Kind()}, Outputs: []Output{{Kind: out.Kind()}}}
}

func (t *transform[In, Out]) Reconcile(r *Run) error {
	from, to := t.From(r.Store), t.To(r.Store)
	to.Begin()
	var failed error
	for i := 0; i < from.Len(); i++ {
		in, meta := from.At(i)
		if meta.Phase != Running {
			continue
		}
		out, ok := t.Map(in)
		if !ok {
			continue
		}
		if key := out.Key(); to.Marked(key) {
			failed = to.fail("transform into", key, ErrTwice)
			continue
		}
		if err := to.Put(r.By, out); err != nil {
			failed = err
		}
	}
	to.Sweep(r.By)
	return failed
}
