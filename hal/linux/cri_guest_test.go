//go:build guest

package linux

import (
	"context"
	"errors"
	"testing"
	"time"

	"machined/hal/conformance"
)

// TestCRIGuest runs on a node, whose containerd it uses; tools/boottest builds it
// and has a service run it.
func TestCRIGuest(t *testing.T) {
	c, err := NewCRI("/run/containerd/containerd.sock", "/sys/fs/cgroup", "/payload/pods", func(string) error { return errors.New("no such file") })
	if err != nil {
		t.Fatal(err)
	}
	c.Namespace = "conformance" // machined would end what is not in its config
	eventually(t, "image of the card", func() bool {
		_, err := c.Image("machined.local/guest:1")
		return err == nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Watch(ctx, func() {}) }()
	conformance.CRI(t, conformance.CRIRig{
		CRI: c, Image: "machined.local/guest:1", Dir: "/run/conformance",
		Run: []string{"wait"}, Fail: []string{"crash", "3"}, Ask: []string{"/guest", "nothing"}, AskFails: []string{"/guest", "unheard-of"},
		Eventually: eventually,
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch = %v; want the context's error", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// eventually has patience with a machine that is emulated.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s", what)
		}
	}
}
