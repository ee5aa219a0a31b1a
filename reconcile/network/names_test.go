package network

import (
	"testing"
	"time"

	"machined/hal"
)

func (r *rig) expectHostname(want string) {
	r.t.Helper()
	if got, err := r.host.Hostname(); got != want || err != nil {
		r.t.Errorf("at %v the host name is %q, %v; want %q", r.now(), got, err, want)
	}
}

func (r *rig) expectResolver(want string) {
	r.t.Helper()
	got, err := r.files.Read(resolver)
	if string(got) != want || err != nil {
		r.t.Errorf("at %v the resolver's file is %q, %v; want %q", r.now(), got, err, want)
	}
	if !r.files.Public(resolver) {
		r.t.Error("the resolver's file cannot be read by all")
	}
}

func TestHostnamePrecedence(t *testing.T) {
	r, s := newRig(t), server()
	r.run(0)
	r.expectHostname(DefaultHostname)
	s.Options.Hostname = "from-dhcp"
	r.dhcp.Join(s)
	r.links.Add(cable("eth0", 1))
	r.run(time.Second)
	r.expectHostname("from-dhcp")
	r.configure(Settings{Hostname: "from-config"})
	r.run(0)
	r.expectHostname("from-config")
	if spec, _ := r.store.HostnameSpecs.At(0); spec.Hostname != "from-config" {
		t.Errorf("the HostnameSpec is %+v; want the config's name", spec)
	}
	r.configure(Settings{})
	r.run(0)
	r.expectHostname("from-dhcp")
	// Somebody else sets it: it comes back.
	if err := r.host.SetHostname("changed"); err != nil {
		t.Fatal(err)
	}
	r.run(namesEvery)
	r.expectHostname("from-dhcp")
	// A name that the kernel refuses is an error, and goes with its cause.
	r.host.FailAlways("SetHostname", hal.ErrInvalid)
	r.configure(Settings{Hostname: "other"})
	r.run(time.Minute)
	r.host.Heal("SetHostname")
	r.run(time.Minute)
	r.expectHostname("other")
	r.expectNoFailures()
}

func TestResolver(t *testing.T) {
	r, s := newRig(t), server()
	s.Options.Nameservers = []hal.Address{ip("192.168.7.1"), ip("192.168.7.3")}
	s.Options.Search = []string{"lan", "example.org"}
	r.dhcp.Join(s)
	r.run(0)
	r.expectResolver("")
	r.links.Add(cable("eth0", 1))
	r.run(time.Second)
	r.expectResolver("nameserver 192.168.7.1\nnameserver 192.168.7.3\nsearch lan example.org\n")

	// What the config says wins, each of the two by itself.
	r.configure(Settings{Nameservers: "9.9.9.9 fd07::1"})
	r.run(0)
	r.expectResolver("nameserver 9.9.9.9\nnameserver fd07::1\nsearch lan example.org\n")
	r.configure(Settings{Search: "home.arpa"})
	r.run(0)
	r.expectResolver("nameserver 192.168.7.1\nnameserver 192.168.7.3\nsearch home.arpa\n")

	// Written when it differs, and only then.
	r.run(time.Minute)
	writes := r.files.Writes
	r.configure(Settings{Search: "home.arpa", Hostname: "other"})
	r.run(10 * time.Minute)
	if r.files.Writes != writes {
		t.Errorf("%d files written for the same content; want none", r.files.Writes-writes)
	}
	if err := r.files.Remove(resolver); err != nil {
		t.Fatal(err)
	}
	r.run(namesEvery)
	r.expectResolver("nameserver 192.168.7.1\nnameserver 192.168.7.3\nsearch home.arpa\n")
	r.files.FailAlways("Replace", hal.ErrNoSpace)
	r.files.Put(resolver, []byte("nonsense"), true)
	r.run(time.Minute)
	r.files.Heal("Replace")
	r.run(time.Minute)
	r.expectResolver("nameserver 192.168.7.1\nnameserver 192.168.7.3\nsearch home.arpa\n")
	r.expectNoFailures()
}

func TestAddWords(t *testing.T) {
	for _, c := range []struct{ list, more, want string }{
		{"", "", ""}, {"", "a b", "a b"}, {"a", "a b a", "a b"}, {"ab", "a b", "ab a b"}, {"a", "  b\n", "a b"},
	} {
		if got := addWords(c.list, c.more); got != c.want {
			t.Errorf("addWords(%q, %q) = %q; want %q", c.list, c.more, got, c.want)
		}
	}
}
