package linux

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/jsimonetti/rtnetlink/v2"
	"golang.org/x/sys/unix"

	"machined/hal"
	"machined/hal/conformance"
)

func TestLinks(t *testing.T) {
	needRoot(t)
	conformance.Links(t, func(t *testing.T) conformance.LinksRig {
		links, conn := newLinks(t), dialRoute(t)
		first, second := addVeth(t, conn), addVeth(t, conn)
		return conformance.LinksRig{
			Links: links, Link: first, Other: second,
			Remove: func() {
				if err := conn.Link.Delete(first); err != nil {
					t.Fatal(err)
				}
			},
			Settle: func() { settleAddresses(t, conn) },
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

func TestWatchLinks(t *testing.T) {
	needRoot(t)
	changes := make(chan struct{}, 1000)
	go func() {
		if err := WatchLinks(func() { changes <- struct{}{} }); err != nil {
			t.Errorf("WatchLinks = %v", err)
		}
	}()
	// The socket is not open yet when the first change may happen.
	links, conn := newLinks(t), dialRoute(t)
	index := addVeth(t, conn)
	for range 100 {
		for _, up := range []bool{true, false} {
			if err := links.SetUp(index, up); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-changes:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Error("WatchLinks told of no change in 200")
}

func TestFormatPrefix(t *testing.T) {
	for _, c := range []struct {
		prefix  hal.Prefix
		address string
		want    string
	}{
		{hal.Prefix{}, "", ""},
		{hal.Prefix{Address: hal.Address{Bytes: [16]byte{192, 168, 7, 1}, Len: 4}, Bits: 24}, "192.168.7.1", "192.168.7.1/24"},
		{hal.Prefix{Address: hal.Address{Len: 4}}, "0.0.0.0", "0.0.0.0/0"},
		{hal.Prefix{Address: hal.Address{Len: 16}}, "::", "::/0"},
		{hal.Prefix{Address: hal.Address{Bytes: [16]byte{0xfd, 7, 15: 1}, Len: 16}, Bits: 64}, "fd07::1", "fd07::1/64"},
	} {
		if got := FormatPrefix(c.prefix); got != c.want {
			t.Errorf("FormatPrefix(%v) = %q; want %q", c.prefix, got, c.want)
		}
		if got := FormatAddress(c.prefix.Address); got != c.address {
			t.Errorf("FormatAddress(%v) = %q; want %q", c.prefix.Address, got, c.address)
		}
	}
	mapped := addressOf(net.ParseIP("10.7.0.1"))
	if want := (hal.Address{Bytes: [16]byte{10, 7, 0, 1}, Len: 4}); mapped != want {
		t.Errorf("addressOf(10.7.0.1 in 16 bytes) = %v; want %v", mapped, want)
	}
}
