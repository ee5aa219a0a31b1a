package reconcile

import (
	"machined/hal"
	"machined/reconcile/resource"
)

const (
	// ErrConflict says that the resource has another version by now.
	ErrConflict hal.Error = "the resource was changed meanwhile"
	// ErrOwner says that the resource is not the writer's.
	ErrOwner hal.Error = "the resource has another owner"
	// ErrOutput says that the writer has not declared the kind as an output.
	ErrOutput hal.Error = "the kind is no output of the writer"
	// ErrFinalizers says that somebody has yet to let go.
	ErrFinalizers hal.Error = "the resource has finalizers"
	// ErrTearingDown says that the resource is on its way out.
	ErrTearingDown hal.Error = "the resource is tearing down"
	// ErrFull says that the table has MaxEntries resources.
	ErrFull hal.Error = "the table is full"
	// ErrOutputs says that two writers exclude each other.
	ErrOutputs hal.Error = "outputs exclude each other"
	// ErrName says that a writer's name is taken, or empty.
	ErrName hal.Error = "the name is not free"
)

// StoreError is what the store refused, and on what.
type StoreError struct {
	Op   string
	Kind resource.Kind
	Key  resource.Key
	Err  error
}

func (e *StoreError) Error() string {
	return e.Op + " " + e.Kind.String() + " " + e.Key.String() + ": " + e.Err.Error()
}

func (e *StoreError) Unwrap() error { return e.Err }

func (t *tableCore) fail(op string, key resource.Key, err error) error {
	return &StoreError{Op: op, Kind: t.kind, Key: key, Err: err}
}
