package conformance_test

import (
	"testing"

	"machined/reconcile/conformance"
)

type failures struct{ t *testing.T }

func (f failures) Fail(message string) { f.t.Helper(); f.t.Error(message) }

func TestCore(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range conformance.Cases() {
		if c.Name == "" || seen[c.Name] {
			t.Errorf("the case %q has no name of its own", c.Name)
		}
		seen[c.Name] = true
		t.Run(c.Name, func(t *testing.T) { c.Run(failures{t}) })
	}
}
