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
// file is there, and again once it is; errors are the same each time.
func TestQueryWithoutNameserver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	n := NTP{Resolver: file}
	for _, text := range []string{"", "search lan\n", "nameserver 127.0.0.1\n"} {
		if text != "" {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := n.Query("ntp.example")
		if want := "ask ntp.example for the time: no name server answers"; err == nil || err.Error() != want {
			t.Errorf("with %q, Query(ntp.example) = %v; want %s", text, err, want)
		}
	}
	const closed = "127.0.0.1:9"
	if _, err := n.Query(closed); err == nil || strings.Contains(err.Error(), "->") {
		t.Errorf("Query of a closed port = %v; want an error without a port of ours", err)
	}
}
