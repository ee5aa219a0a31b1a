package linux

import (
	"testing"
	"time"

	"machined/hal"
)

// TestWatchOverflow: changes that come faster than they are read overflow the
// socket (ENOBUFS). Watching goes on, and what was lost is told of by one more
// change.
func TestWatchOverflow(t *testing.T) {
	needRoot(t)
	links, conn := newLinks(t), dialRoute(t)
	index := addVeth(t, conn)
	blocked, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	first := true
	go func() {
		ended <- links.Watch(func() {
			if first {
				first = false
				close(blocked)
				<-release
			}
		})
	}()
	<-blocked
	address := hal.Prefix{Address: v4(10, 7, 0, 2), Bits: 24}
	for range 3000 { // some 400 bytes of message each; the socket takes 212,992
		if err := links.AddAddress(index, address); err != nil {
			t.Fatal(err)
		}
		if err := links.RemoveAddress(index, address); err != nil {
			t.Fatal(err)
		}
	}
	close(release)
	settleChanges(links)
	before := links.Changes()
	if before < 2 || before > 6000 {
		t.Errorf("%d changes counted after a flood; want more than the start and less than all", before)
	}
	if err := links.AddAddress(index, address); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); links.Changes() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no change is counted after a flood")
		}
	}
	select {
	case err := <-ended:
		t.Errorf("Watch = %v after a flood; want it to go on", err)
	default:
	}
}

// TestPhysical: what containers make is no piece of hardware.
func TestPhysical(t *testing.T) {
	needRoot(t)
	conn := dialRoute(t)
	index := addVeth(t, conn)
	links, err := NewLinks()
	if err != nil {
		t.Fatal(err)
	}
	defer links.Close()
	all, err := links.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		if l.Wired {
			t.Errorf("%s (link %d of a veth pair with %d) is called wired", l.Name, l.Index, index)
		}
	}
}
