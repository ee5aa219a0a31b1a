package linux

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestNameservers(t *testing.T) {
	got := nameservers("# by hand\nnameserver 10.0.0.1\nsearch lan\n nameserver fe80::1%eth0 \nnameserver\n")
	if want := []string{"10.0.0.1", "fe80::1%eth0"}; !slices.Equal(got, want) {
		t.Errorf("nameservers() = %q; want %q", got, want)
	}
}

// TestQueryWithoutNameserver: a board asks for the time before its resolver's
// file is there, and again once it is. On a network of IPv6 alone that never names
// a server, and the node said no more than that none answers.
func TestQueryWithoutNameserver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	n := NTP{Resolver: file}
	const unset = "there is no name server; set machine.network.nameservers"
	for _, c := range []struct{ text, want string }{
		{"", "no name server answers"}, {"search lan\n", unset}, {"\n", unset}, {"nameserver 127.0.0.1\n", "no name server answers"},
	} {
		if c.text != "" {
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := n.Query("ntp.example")
		if want := "ask ntp.example for the time: " + c.want; err == nil || err.Error() != want {
			t.Errorf("with %q, Query(ntp.example) = %v; want %s", c.text, err, want)
		}
	}
	const closed = "127.0.0.1:9"
	if _, err := n.Query(closed); err == nil || strings.Contains(err.Error(), "->") {
		t.Errorf("Query of a closed port = %v; want an error without a port of ours", err)
	}
}
