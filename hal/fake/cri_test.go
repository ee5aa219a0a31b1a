package fake

import (
	"testing"

	"machined/hal"
	"machined/hal/conformance"
)

func TestCRIConformance(t *testing.T) {
	c := NewCRI()
	c.Registry = []Source{{Ref: "guest:1", Image: hal.Image{ID: "sha256:guest", Tags: []string{"guest:1"}}}}
	if _, err := c.PullImage("guest:1", hal.Auth{}); err != nil {
		t.Fatal(err)
	}
	conformance.CRI(t, conformance.CRIRig{
		CRI: c, Image: "guest:1", Dir: "/run/test",
		Run: []string{"wait"}, Fail: []string{Exit, "3"}, Ask: []string{"0"}, AskFails: []string{"1"},
		Eventually: func(t *testing.T, what string, done func() bool) {
			if !done() {
				t.Errorf("no %s", what)
			}
		},
	})
}
