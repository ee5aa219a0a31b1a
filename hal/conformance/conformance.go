// Package conformance checks that a driver keeps what the comments of package
// hal promise. The same suites run over hal/fake and, for real, over
// hal/linux, so that a simulation does not pass on manners that no kernel has.
//
// Each suite asks for a rig: a driver in a fresh surrounding and the handles by
// which the suite changes that surrounding.
package conformance

import (
	"errors"
	"testing"
)

// expect checks an error against the one that is promised; nil for success.
func expect(t *testing.T, call string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s = %v; want %v", call, got, want)
	}
}

// must ends the test where going on would only repeat the failure.
func must(t *testing.T, call string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s = %v; want success", call, err)
	}
}
