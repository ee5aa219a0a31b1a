package linux

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"machined/hal"
	"machined/tools/testenv"
)

// TestWatchOverflow: changes that come faster than they are read overflow the
// socket (ENOBUFS). Watching goes on, and what was lost is told of by one more
// change.
func TestWatchOverflow(t *testing.T) {
	testenv.NeedRoot(t)
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
	testenv.NeedRoot(t)
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

// BenchmarkObserve looks at all links of a node with many containers, as the
// loop does at each change.
func BenchmarkObserve(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("not root: links are out of reach")
	}
	links, err := NewLinks()
	if err != nil {
		b.Fatal(err)
	}
	defer links.Close()
	for i := range 30 {
		name := "pod" + strconv.Itoa(i)
		if out, err := exec.Command("ip", "link", "add", name, "type", "veth", "peer", "name", name+"x").CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	all, err := links.List()
	if err != nil {
		b.Fatal(err)
	}
	for i, l := range all {
		if err := links.SetUp(l.Index, true); err != nil {
			b.Fatal(err)
		}
		_ = links.AddAddress(l.Index, hal.Prefix{Address: v4(10, 8, byte(i), 1), Bits: 24})
	}
	b.ReportAllocs()
	for b.Loop() {
		all, err := links.List()
		if err != nil {
			b.Fatal(err)
		}
		for _, l := range all {
			if _, err := links.Addresses(l.Index); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := links.Routes(); err != nil {
			b.Fatal(err)
		}
	}
}
