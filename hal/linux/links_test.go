package linux

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jsimonetti/rtnetlink/v2"
	"golang.org/x/sys/unix"

	"machined/hal"
	"machined/hal/conformance"
	"machined/tools/testenv"
)

func TestLinks(t *testing.T) {
	testenv.NeedRoot(t)
	conformance.Links(t, func(t *testing.T) conformance.LinksRig {
		links, conn := newLinks(t), dialRoute(t)
		watch(t, links)
		first, second := addVeth(t, conn), addVeth(t, conn)
		return conformance.LinksRig{
			Links: links, Link: first, Other: second,
			Remove: func() {
				if err := conn.Link.Delete(first); err != nil {
					t.Fatal(err)
				}
			},
			Settle: func() { settleAddresses(t, conn); settleChanges(links) },
		}
	})
}

func newLinks(t *testing.T) *Links {
	t.Helper()
	links, err := NewLinks()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { links.Close() })
	links.Physical = func(name string) bool { return strings.HasPrefix(name, "cable") }
	return links
}

func dialRoute(t *testing.T) *rtnetlink.Conn {
	t.Helper()
	conn, err := rtnetlink.Dial(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// addVeth makes a pair of virtual Ethernet links, whose other end is up, and
// returns the index of one. (The kernels of build machines often lack dummy.)
func addVeth(t *testing.T, conn *rtnetlink.Conn) uint32 {
	t.Helper()
	before := linkNames(t)
	err := conn.Link.New(&rtnetlink.LinkMessage{Attributes: &rtnetlink.LinkAttributes{
		Name: fmt.Sprintf("cable%d", len(before)), Info: &rtnetlink.LinkInfo{Kind: "veth"},
	}})
	if err != nil {
		t.Fatalf("make a veth pair: %v", err)
	}
	var ends []net.Interface
	for _, i := range linkNames(t) {
		if !contains(before, i.Name) {
			ends = append(ends, i)
		}
	}
	if len(ends) != 2 {
		t.Fatalf("a new veth pair has the links %v; want 2", ends)
	}
	peer := uint32(ends[0].Index)
	if err := conn.Link.Set(&rtnetlink.LinkMessage{Index: peer, Flags: unix.IFF_UP, Change: unix.IFF_UP}); err != nil {
		t.Fatal(err)
	}
	index := uint32(ends[1].Index)
	t.Cleanup(func() { _ = conn.Link.Delete(index) })
	return index
}

func linkNames(t *testing.T) []net.Interface {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func contains(all []net.Interface, name string) bool {
	for _, i := range all {
		if i.Name == name {
			return true
		}
	}
	return false
}

// settleAddresses waits for duplicate address detection (RFC 4862): until it
// is done a gateway is out of reach.
func settleAddresses(t *testing.T, conn *rtnetlink.Conn) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		all, err := conn.Address.List()
		if err != nil {
			t.Fatal(err)
		}
		tentative := false
		for _, a := range all {
			tentative = tentative || a.Attributes.Flags&unix.IFA_F_TENTATIVE != 0
		}
		if !tentative {
			return
		}
	}
	t.Fatal("an address is still tentative after 10 s")
}

// watch counts changes for as long as the process lives: in a network namespace
// of the test, which nobody else changes.
func watch(t *testing.T, links *Links) {
	t.Helper()
	listening := make(chan struct{}, 1)
	go func() {
		_ = links.Watch(func() {
			select {
			case listening <- struct{}{}:
			default:
			}
		})
	}()
	select {
	case <-listening:
	case <-time.After(10 * time.Second):
		t.Fatal("Watch does not listen after 10 s")
	}
}

// settleChanges waits until no change was counted for a while.
func settleChanges(links *Links) {
	for last, quiet := links.Changes(), 0; quiet < 10; time.Sleep(10 * time.Millisecond) {
		quiet++
		if now := links.Changes(); now != last {
			last, quiet = now, 0
		}
	}
}

func TestMappedAddress(t *testing.T) {
	mapped := addressOf(net.ParseIP("10.7.0.1"))
	if want := (hal.Address{Bytes: [16]byte{10, 7, 0, 1}, Len: 4}); mapped != want {
		t.Errorf("addressOf(10.7.0.1 in 16 bytes) = %v; want %v", mapped, want)
	}
}
